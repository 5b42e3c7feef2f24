//! Random messages in random pieces: the terminal ends with what the whole message gives, and no word is lost or repeated.

use std::num::NonZeroU16;

use proptest::{collection::vec, prelude::*, sample::select, test_runner::Config};

use super::MarkdownWriter;
use crate::{output::Colour, property};

/// Rows of the terminal; longer messages scroll.
const ROWS: NonZeroU16 = NonZeroU16::new(24).unwrap();
/// Lines above the screen that the terminal keeps.
const KEPT: usize = 20_000;
/// Stands for a word that occurs once.
const WORD: &str = "@";

fn cases() -> Config {
    let config = property::cases();
    Config { cases: config.cases.max(300), ..config }
}

/// Everything a terminal shows and has scrolled away, with its colours.
fn screen(output: &str, width: u16) -> Vec<String> {
    let columns = NonZeroU16::new(width).expect("terminals have columns");
    let mut terminal = vt100::Parser::new(ROWS, columns, KEPT);
    terminal.process(output.replace('\n', "\r\n").as_bytes());
    let mut rows = Vec::new();
    terminal.screen_mut().set_scrollback(usize::MAX);
    for above in (1..=terminal.screen().scrollback()).rev() {
        terminal.screen_mut().set_scrollback(above);
        rows.extend(terminal.screen().rows_formatted(0, width).next());
    }
    terminal.screen_mut().set_scrollback(0);
    rows.extend(terminal.screen().rows_formatted(0, width));
    rows
}

fn whole(text: &str, width: u16, colour: Colour) -> String {
    let mut writer = MarkdownWriter::new(width.into(), colour);
    writer.source.push(text);
    writer.finish()
}

/// Feeds the text in pieces of these sizes, over and over.
fn streamed(text: &str, sizes: &[usize], width: u16, colour: Colour) -> String {
    let mut writer = MarkdownWriter::new(width.into(), colour);
    let mut letters = text.chars().peekable();
    let mut sizes = sizes.iter().cycle();
    let mut output = String::new();
    while letters.peek().is_some() {
        let size = sizes.next().copied().unwrap_or(1);
        output.push_str(&writer.push(&letters.by_ref().take(size).collect::<String>()));
    }
    output + &writer.finish()
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![1]), vec(1..6_usize, 1..8), vec(1..80_usize, 1..8)]
}

/// Text inside a paragraph.
fn phrase() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "@",
        "@ @",
        "@,",
        "**@ @**",
        "*@*",
        "***@***",
        "_@ @_",
        "**@ *@* @**",
        "`@ @`",
        "``@ ` @``",
        "[@ @](https://e.x/@)",
        "[@](u_@(x)y)",
        "[@](u \"t\")",
        "**[@](u)**",
        "![@](u)",
        "<https://e.x/a_@>",
        "<b>@</b>",
        "@ &amp; @",
        "R&D @",
        "\\*@",
        "2 * 3 @",
        "@*@*@",
        "a_@_b",
        "~5 @",
        "~~@ @~~",
        "漢字@かな、交じり",
        "**重要:** @",
        "✅ @",
        "👩‍👩‍👧@",
        "@ < @",
        "[ ] @",
        "[@]",
        "[@]:",
        "@ |",
        "#@",
        "@ #",
        "**@",
        "@**",
        "`@",
        "[@",
        "@](u)",
        "<@",
        "e\u{301}@",
        "1. @",
        "@: https://example.com/a/long/address/that/fills/lines/@",
    ]);
    let gap = select(vec![" ", " ", " ", " ", "\n", "  \n", "\\\n", ""]);
    vec((piece, gap), 1..9).prop_map(|pieces| {
        let mut text: String = pieces.iter().flat_map(|(piece, gap)| [*piece, *gap]).collect();
        text.truncate(text.trim_end().len());
        text
    })
}

fn leaf() -> impl Strategy<Value = String> {
    let row = vec(select(vec!["@", "@ @ @", "漢字@", "**@**", "`@`", ""]), 3)
        .prop_map(|cells| format!("| {} |", cells.join(" | ")));
    let table = vec(row, 2..6).prop_map(|mut rows| {
        rows.insert(1, "|---|:-:|--:|".to_owned());
        rows.join("\n")
    });
    let code =
        vec(select(vec!["fn @() {}", "", "  let x = \"@\"; // @", "/* @", "@ */", "- @", "漢 @", "---", "``"]), 0..6);
    let fence = (select(vec!["```", "```rust", "~~~", "```py x", "```@"]), code.clone()).prop_map(|(fence, lines)| {
        let end = if fence.starts_with('~') { "~~~" } else { "```" };
        format!("{fence}\n{}\n{end}", lines.join("\n"))
    });
    let indented = code
        .prop_map(|lines| format!("    @\n{}", lines.iter().map(|line| format!("    {line}\n")).collect::<String>()));
    let heading =
        (1..4_usize, phrase()).prop_map(|(level, text)| format!("{} {}", "#".repeat(level), text.replace('\n', " ")));
    let underlined =
        (phrase(), select(vec!["===", "---", "-", "="])).prop_map(|(text, line)| format!("{text}\n{line}"));
    prop_oneof![
        6 => phrase(),
        1 => heading,
        1 => underlined,
        1 => table,
        2 => fence,
        1 => indented,
        1 => select(vec!["---", "***", "* * *", "<div>\n@\n</div>", "<!-- @\n\n@ -->", "@ | @\n--|--\n@ | @"]).prop_map(str::to_owned),
    ]
}

/// Blocks, below each other and in each other.
fn document() -> impl Strategy<Value = String> {
    let gap = || select(vec!["\n\n", "\n\n", "\n", "\n\n\n"]);
    leaf().prop_recursive(4, 40, 6, move |inner| {
        let list = (select(vec!["- ", "* ", "1. ", "10) ", "-   ", "> ", ">"]), vec((inner.clone(), gap()), 1..6))
            .prop_map(|(mark, items)| {
                items.iter().map(|(item, gap)| format!("{}{gap}", nested(mark, item))).collect::<String>()
            });
        let sequence = vec((inner, gap()), 1..5)
            .prop_map(|blocks| blocks.iter().flat_map(|(block, gap)| [block.as_str(), *gap]).collect());
        prop_oneof![list, sequence]
    })
}

/// Puts text behind the mark of a container.
fn nested(mark: &str, text: &str) -> String {
    let rest = if mark.starts_with('>') { mark.to_owned() } else { " ".repeat(mark.len()) };
    let lines = text.lines().enumerate().map(|(number, line)| match number {
        0 => format!("{mark}{line}"),
        _ if line.is_empty() => rest.trim_end().to_owned(),
        _ => format!("{rest}{line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Gives each word its number.
fn numbered(text: &str) -> (String, usize) {
    let parts: Vec<&str> = text.split(WORD).collect();
    let mut numbered = parts[0].to_owned();
    for (number, part) in parts.iter().enumerate().skip(1) {
        numbered.push_str(&format!("w{number}z{part}"));
    }
    (numbered, parts.len() - 1)
}

#[derive(Clone, Copy, Debug)]
enum Expect {
    SameScreen,
    EachWordOnce,
}

fn check(text: &str, sizes: &[usize], width: u16, expect: Expect) -> Result<(), TestCaseError> {
    let (text, words) = numbered(text);
    let streamed = screen(&streamed(&text, sizes, width, Colour::Yes), width);
    let once = screen(&whole(&text, width, Colour::Yes), width);
    prop_assert!(streamed == once, "{text:?}\nstreamed:\n{}\nwhole:\n{}", streamed.join("\n"), once.join("\n"));
    if let Expect::EachWordOnce = expect {
        let output = whole(&text, width, Colour::No);
        for number in 1..=words {
            let count = output.matches(&format!("w{number}z")).count();
            prop_assert_eq!(count, 1, "w{}z in {:?}:\n{}", number, text, output);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_streamed_message_looks_like_the_whole_one(text in document(), sizes in sizes(), width in 20..200_u16) {
        check(&text, &sizes, width, Expect::EachWordOnce)?;
    }

    #[test]
    fn any_marks_in_any_order_are_written_once(
        text in "([-*_+#>|:=~`\\[\\]()<&;!\\\\ \na-c1.中é\"\r\t]|\n\n|\n- |\n> |``|\\*\\*|  \n|@ |\n\\| @ \\||\n---|\n--\\|--\n){0,70}",
        sizes in sizes(),
        width in 20..200_u16,
    ) {
        check(&text, &sizes, width, Expect::SameScreen)?;
    }
}

/// Messages that random runs have found.
const FOUND: [&str; 3] = [
    "**é\n| a |**\n--|--\n",
    ">**a\n>**[b](u)** c d **e *f* g**\\\n>    h\n>    /* i\n",
    "- \u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}a\n",
];

#[test]
fn messages_that_were_once_written_again_are_written_once() {
    for text in FOUND {
        for size in 1..8 {
            for width in [20, 80] {
                let streamed = streamed(text, &[size], width, Colour::Yes);
                assert_eq!(streamed, whole(text, width, Colour::Yes), "{text:?} {size}");
            }
        }
    }
}
