//! Stories about markdown: what a reader sees, whatever the pieces in which it arrives.

use super::MarkdownWriter;
use crate::output::Colour;

/// Feeds the text in pieces of `size` characters; returns all output.
fn shown(text: &str, size: usize, width: usize, colour: Colour) -> String {
    let mut writer = MarkdownWriter::new(width, colour);
    let letters: Vec<char> = text.chars().collect();
    let mut out: String = letters.chunks(size).map(|piece| writer.push(&piece.iter().collect::<String>())).collect();
    out.push_str(&writer.finish());
    out
}

fn plain(text: &str) -> String {
    shown(text, usize::MAX, 40, Colour::No)
}

const PAGE: &str = "# Report\n\nThe *first* file has `3 lines` and 2 * 3 = 6 words in snake_case_names, \
    see [the guide](https://example.com/a).\n\n- one with **bold words** in it\n- two\n  - nested\n\n1. a\n2. b\n\n\
    ```rust\nfn main() {}\n\n// end\n```\n\n> quoted text\n\n| name | size |\n|---|---|\n| a.txt | 12 |\n\nDone & dusted.";

#[test]
fn a_page_reads_well_without_colours() {
    assert_eq!(
        plain(PAGE),
        "Report\n\nThe first file has `3 lines` and 2 * 3 =\n6 words in snake_case_names, see the\nguide \
         (https://example.com/a).\n\n• one with bold words in it\n• two\n  • nested\n\n1. a\n2. b\n\n  rust\n  fn main() {}\n  \
         \n  // end\n\n│ quoted text\n\nname  │ size\n──────┼─────\na.txt │ 12\n\nDone & dusted.\n"
    );
}

#[test]
fn pieces_do_not_change_what_is_shown() {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let whole = shown(PAGE, usize::MAX, 60, Colour::No);
    for size in [1, 2, 3, 7, 20] {
        assert_eq!(words(&shown(PAGE, size, 60, Colour::No)), words(&whole), "pieces of {size}");
    }
}

#[test]
fn words_appear_as_they_arrive() {
    let mut writer = MarkdownWriter::new(80, Colour::Yes);
    assert_eq!(writer.push("Hel"), "", "the word may be too long for the line");
    assert_eq!(writer.push("lo "), "Hello");
    assert_eq!(writer.push("**wor"), "", "markup is held back until it is closed");
    assert_eq!(writer.push("ld** now"), " \u{1b}[1mworld\u{1b}[0m");
    assert_eq!(writer.finish(), " now\n");
}

#[test]
fn lines_wrap_at_words_and_never_exceed_the_width() {
    let text = "word ".repeat(40);
    for size in [1, 4, 5, 64] {
        let shown = shown(&text, size, 23, Colour::No);
        assert!(shown.lines().all(|line| line.chars().count() <= 23 && !line.ends_with("wor")), "{shown}");
    }
}

#[test]
fn wide_tables_wrap_inside_their_cells() {
    let table = format!("| a | b |\n|---|---|\n| x | {} |\n", "word ".repeat(20));
    let shown = plain(&table);
    assert!(shown.lines().all(|line| line.chars().count() <= 40), "{shown}");
    assert_eq!(shown.matches("word").count(), 20, "{shown}");
}

#[test]
fn control_sequences_of_a_model_are_shown_as_text() {
    let shown = shown("a\u{1b}[2Jb `\u{1b}]0;x\u{7}c`\n\n```\n\u{1b}[31mred\n```", 3, 40, Colour::No);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    assert!(shown.contains("a\\u{1b}[2Jb") && shown.contains("\\u{1b}[31mred"), "{shown:?}");
}

#[test]
fn code_lines_appear_when_they_are_complete() {
    let mut writer = MarkdownWriter::new(80, Colour::No);
    assert_eq!(writer.push("```\nlet a"), "");
    assert_eq!(writer.push(" = 1;\nlet"), "  let a = 1;");
    assert_eq!(writer.push(" b = 2;\n```\n"), "\n  let b = 2;");
    assert_eq!(writer.finish(), "\n");
}

#[test]
fn items_of_streamed_lists_appear_once() {
    let item = |number: usize| {
        format!("item{number}. has **bold words**, `code` and enough text to reach the end of the line")
    };
    let flat: String = (0..48).map(|number| format!("- {}\n", item(number))).collect();
    let nested: String = (0..90).map(|number| format!("{}- {}\n", "  ".repeat(number % 3), item(number))).collect();
    for list in [flat, nested] {
        let whole = shown(&list, usize::MAX, 80, Colour::No);
        for size in [2, 5, 11] {
            assert_eq!(shown(&list, size, 80, Colour::No), whole, "pieces of {size}");
        }
        assert!((0..48).all(|number| whole.matches(&format!("item{number}.")).count() == 1), "{whole}");
    }
}

#[test]
fn what_changes_the_lines_above_is_drawn_below_them() {
    assert_eq!(plain("Title\n===\ntext"), format!("Title\n{}\n\ntext\n", "─".repeat(40)));
    assert_eq!(plain("see [a]\n\n[a]: https://example.com"), "see [a]\n\n[a]: https://example.com\n");
    assert_eq!(plain("a | b\n--|--"), "a | b --|--\n", "a table begins with a pipe");
}

#[test]
fn blocks_in_items_stand_on_their_own_lines() {
    let item = "- # head\n  text\n  ```\n  code\n  ```\n  more\n\n  | a | b |\n  |---|---|\n  | 1 | 2 |\n";
    assert_eq!(plain(item), "• head\n  text\n    code\n  more\n  a │ b\n  ──┼──\n  1 │ 2\n");
}

#[test]
fn wide_characters_wrap_without_spaces() {
    let shown = shown(&"漢字".repeat(30), 1, 21, Colour::No);
    assert!(shown.lines().all(|line| line.chars().count() <= 10), "{shown}");
    assert_eq!(shown.matches('漢').count(), 30, "{shown}");
}

#[test]
fn code_is_coloured_by_language() {
    let code = "```rust\nlet a = \"x\"; // 1\n/* two\nlines */ 7\n```";
    let coloured = shown(code, 3, 80, Colour::Yes);
    for part in
        ["\u{1b}[35mlet", "\u{1b}[32m\"x\"", "\u{1b}[90m// 1", "\u{1b}[90m/* two", "\u{1b}[90mlines */", "\u{1b}[33m7"]
    {
        assert!(coloured.contains(part), "{part:?} in {coloured:?}");
    }
    assert!(shown("```\nlet a\n```", 3, 80, Colour::Yes).contains("\u{1b}[36mlet a"), "without a language");
}
