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
    assert_eq!(writer.push("Hel"), "Hel");
    assert_eq!(writer.push("lo "), "lo");
    assert_eq!(writer.push("**wor"), "", "markup is held back until it is closed");
    assert_eq!(writer.push("ld** now"), " \u{1b}[1mworld\u{1b}[0m now");
    assert_eq!(writer.finish(), "\n");
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
fn control_sequences_of_a_model_are_removed() {
    let shown = shown("a\u{1b}[2Jb `\u{1b}]0;x\u{7}c`\n\n```\n\u{1b}[31mred\n```", 3, 40, Colour::No);
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    assert!(shown.contains("red"), "{shown:?}");
}

#[test]
fn code_lines_appear_when_they_are_complete() {
    let mut writer = MarkdownWriter::new(80, Colour::No);
    assert_eq!(writer.push("```\nlet a"), "");
    assert_eq!(writer.push(" = 1;\nlet"), "  let a = 1;");
    assert_eq!(writer.push(" b = 2;\n```\n"), "\n  let b = 2;");
    assert_eq!(writer.finish(), "\n");
}
