//! Text of others as it is shown: a table of hostile values, what stays text, and that nothing is lost.

use proptest::prelude::*;
use toolway_config::visible::{self, Segment, StreamedText, has_hidden, plain, segments};

/// Hidden characters as escapes, by what they do. Each is tried in several places of a text.
const HOSTILE: &[(&str, &[char])] = &[
    ("C0 controls", &['\0', '\u{1}', '\u{3}', '\u{4}', '\u{5}', '\u{7}', '\u{8}', '\u{b}', '\u{c}', '\u{e}', '\u{f}']),
    ("more C0 controls", &['\u{10}', '\u{11}', '\u{13}', '\u{18}', '\u{1a}', '\u{1b}', '\u{1c}', '\u{1f}', '\u{7f}']),
    (
        "C1 controls",
        &['\u{80}', '\u{84}', '\u{85}', '\u{8d}', '\u{90}', '\u{9b}', '\u{9c}', '\u{9d}', '\u{9e}', '\u{9f}'],
    ),
    ("bidirectional controls", &['\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}']),
    ("overrides and isolates", &['\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}', '\u{206a}', '\u{206f}']),
    ("spaces without width", &['\u{200b}', '\u{2060}', '\u{2061}', '\u{2064}', '\u{feff}', '\u{ad}', '\u{180e}']),
    ("joiners between ASCII letters", &['\u{200c}', '\u{200d}', '\u{34f}']),
    ("variation selectors", &['\u{fe00}', '\u{fe0e}', '\u{fe0f}', '\u{180b}', '\u{180f}', '\u{e0100}', '\u{e01ef}']),
    ("tags", &['\u{e0001}', '\u{e0020}', '\u{e0041}', '\u{e007a}', '\u{e007f}', '\u{e0fff}']),
    ("fillers", &['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}', '\u{17b4}', '\u{17b5}']),
    ("separators of lines and annotations", &['\u{2028}', '\u{2029}', '\u{fff9}', '\u{fffa}', '\u{fffb}', '\u{fff0}']),
    ("musical, shorthand and Egyptian format", &['\u{1d173}', '\u{1d17a}', '\u{1bca0}', '\u{13430}', '\u{110bd}']),
    ("blanks", &['\u{2800}', '\u{fffc}', '\u{1d159}']),
    (
        "private and not assigned",
        &['\u{e000}', '\u{f8ff}', '\u{f0000}', '\u{100000}', '\u{378}', '\u{2fe0}', '\u{50000}'],
    ),
    ("noncharacters", &['\u{fdd0}', '\u{fdd1}', '\u{fffe}', '\u{ffff}', '\u{1fffe}', '\u{10ffff}']),
];

/// Texts in which a part would be hidden, or would move the rest, with how they are shown.
const TEXTS: &[(&str, &str)] = &[
    ("\u{4e2d}\u{200c}\u{6587}\u{200d}\u{5b57}", "\u{4e2d}\\u{200c}\u{6587}\\u{200d}\u{5b57}"),
    ("\u{5d0}\u{200d}\u{5d1}", "\u{5d0}\\u{200d}\u{5d1}"),
    ("\u{d55c}\u{200b}\u{ae00}\u{200c}\u{c790}", "\u{d55c}\\u{200b}\u{ae00}\\u{200c}\u{c790}"),
    ("ls -la \u{1b}]; rm -rf ~/important ; echo \u{7}", "ls -la \\u{1b}]; rm -rf ~/important ; echo \\u{7}"),
    ("a\u{1b}]0;title\u{7}b", "a\\u{1b}]0;title\\u{7}b"),
    (
        "a\u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\",
        "a\\u{1b}]8;;http://evil\\u{1b}\\link\\u{1b}]8;;\\u{1b}\\",
    ),
    ("a\u{1b}Pq#0\u{1b}\\b", "a\\u{1b}Pq#0\\u{1b}\\b"),
    ("a\u{1b}X rm -rf \u{1b}\\b", "a\\u{1b}X rm -rf \\u{1b}\\b"),
    ("a\u{1b}^ rm -rf \u{1b}\\b", "a\\u{1b}^ rm -rf \\u{1b}\\b"),
    ("a\u{1b}_ rm -rf \u{1b}\\b", "a\\u{1b}_ rm -rf \\u{1b}\\b"),
    ("\u{1b}[31mred\u{1b}[0m", "\\u{1b}[31mred\\u{1b}[0m"),
    ("\u{1b}[8mconcealed\u{1b}[28m", "\\u{1b}[8mconcealed\\u{1b}[28m"),
    ("up\u{1b}[2A\u{1b}[2Kover", "up\\u{1b}[2A\\u{1b}[2Kover"),
    ("a\u{1b}[;rm -rf x;mb", "a\\u{1b}[;rm -rf x;mb"),
    ("\u{1b}(0lqqk\u{1b}(B", "\\u{1b}(0lqqk\\u{1b}(B"),
    ("\u{1b}c reset", "\\u{1b}c reset"),
    ("\u{1b}#8", "\\u{1b}#8"),
    ("\u{1b}[?1049h other screen", "\\u{1b}[?1049h other screen"),
    ("\u{1b}[6n asks", "\\u{1b}[6n asks"),
    ("\u{1b}]52;c;cm0gLXJm\u{7} clipboard", "\\u{1b}]52;c;cm0gLXJm\\u{7} clipboard"),
    ("a\u{9b}2Jb", "a\\u{9b}2Jb"),
    ("a\u{9d}0;x\u{9c}b", "a\\u{9d}0;x\\u{9c}b"),
    ("a\u{90}q\u{9c}b", "a\\u{90}q\\u{9c}b"),
    ("a\u{98}hidden\u{9c}b", "a\\u{98}hidden\\u{9c}b"),
    ("end\u{1b}", "end\\u{1b}"),
    ("end\u{1b}[", "end\\u{1b}["),
    ("\u{1b}]0;never ends\nnext", "\\u{1b}]0;never ends\nnext"),
    ("rm -rf /\rls -la  ", "rm -rf /\\u{d}ls -la  "),
    ("a\r", "a\\u{d}"),
    ("a\r\r\nb", "a\\u{d}\nb"),
    ("a\n\rb", "a\n\\u{d}b"),
    ("rm\u{8}\u{8}ls", "rm\\u{8}\\u{8}ls"),
    ("one\u{c}two\u{b}three", "one\\u{c}two\\u{b}three"),
    ("safe\u{202e}gpj.exe", "safe\\u{202e}gpj.exe"),
    ("a\u{2066}b\u{2069}c", "a\\u{2066}b\\u{2069}c"),
    ("ab\u{200f}/etc", "ab\\u{200f}/etc"),
    ("one\u{2028}two\u{2029}three", "one\\u{2028}two\\u{2029}three"),
    ("r\u{200c}m -rf", "r\\u{200c}m -rf"),
    ("r\u{200d}m -rf", "r\\u{200d}m -rf"),
    ("/etc\u{200b}/passwd", "/etc\\u{200b}/passwd"),
    ("pass\u{ad}word", "pass\\u{ad}word"),
    ("\u{3164}=1", "\\u{3164}=1"),
    ("a\u{ffa0}b\u{1160}", "a\\u{ffa0}b\\u{1160}"),
    ("go\u{e0072}\u{e006d}\u{e0020}", "go\\u{e0072}\\u{e006d}\\u{e0020}"),
    ("\u{1f3f4}\u{e0067}\u{e0062}\u{e007f}", "\u{1f3f4}\\u{e0067}\\u{e0062}\\u{e007f}"),
    ("x\u{fe0f}y", "x\\u{fe0f}y"),
    ("1\u{fe0f}", "1\\u{fe0f}"),
    ("\u{2764}\u{fe0f}\u{fe0f}", "\u{2764}\u{fe0f}\\u{fe0f}"),
    ("\u{2764}\u{fe0e}", "\u{2764}\\u{fe0e}"),
    ("\u{1f468}\u{200d}x", "\u{1f468}\\u{200d}x"),
    ("\u{1f468}\u{200d}", "\u{1f468}\\u{200d}"),
    ("\u{1f468}\u{200d}\u{200d}\u{1f469}", "\u{1f468}\\u{200d}\\u{200d}\u{1f469}"),
    ("\u{1f468}\u{200c}\u{1f469}", "\u{1f468}\\u{200c}\u{1f469}"),
    ("\u{645}\u{200c}\u{5d0}", "\u{645}\\u{200c}\u{5d0}"),
    ("\u{645}\u{200c}", "\u{645}\\u{200c}"),
    ("\u{200c}\u{645}", "\\u{200c}\u{645}"),
    ("\u{430}\u{200d}\u{431}", "\u{430}\\u{200d}\u{431}"),
    ("a\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}", "a\u{301}\u{302}\u{303}\u{304}\\u{305}\\u{306}"),
    ("\u{301}a", "\\u{301}a"),
    ("a\n\u{301}", "a\n\\u{301}"),
    ("a\u{1b}\u{301}", "a\\u{1b}\\u{301}"),
    ("a\u{34f}\u{301}", "a\\u{34f}\\u{301}"),
    ("a\u{20dd}\u{20dd}\u{20dd}\u{20dd}\u{20dd}", "a\u{20dd}\u{20dd}\u{20dd}\u{20dd}\\u{20dd}"),
    ("\u{fff9}shown\u{fffa}hidden\u{fffb}", "\\u{fff9}shown\\u{fffa}hidden\\u{fffb}"),
    ("a\0b", "a\\u{0}b"),
    ("\u{feff}#!/bin/sh", "\\u{feff}#!/bin/sh"),
    ("a\u{85}b", "a\\u{85}b"),
    ("\u{fdd0}1b\u{fdd1}", "\\u{fdd0}1b\\u{fdd1}"),
];

/// Texts that look strange and hide nothing.
const HARMLESS: &[&str] = &[
    "plain\ttext\nmore",
    "Grüße, Ελλάδα, Привет, 你好, こんにちは, 안녕하세요, สวัสดี",
    "e\u{301}a\u{308}",
    "a\u{301}\u{302}\u{303}\u{304}",
    "نمی\u{200c}خواهم",
    "क्\u{200d}ष र\u{94d}\u{200c}क",
    "\u{9b0}\u{200d}\u{9cd}\u{9af}",
    "ශ්\u{200d}රී",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}",
    "\u{1f469}\u{1f3fd}\u{200d}\u{1f680}",
    "\u{1f3f3}\u{fe0f}\u{200d}\u{1f308}",
    "\u{2764}\u{fe0f}\u{200d}\u{1f525}",
    "1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3}",
    "\u{1f1e9}\u{1f1ea} \u{1f44d}\u{1f3fb}",
    "שלום \u{645}\u{631}\u{62d}\u{628}\u{627}",
    "non\u{a0}breaking\u{3000}spaces",
    "price: 5 €, ½, “quoted” – dash…",
    "C:\\users\\ada",
    "\\n \\x1b \\u001b",
];

fn escaped(letter: char) -> String {
    letter.escape_unicode().to_string()
}

#[test]
fn hostile_characters_are_escaped_visibly_and_never_removed() {
    let mut values = TEXTS.len();
    for letter in HOSTILE.iter().flat_map(|(_, letters)| *letters) {
        for (before, after) in [("rm", "x"), ("", "x"), ("rm ", ""), ("/", "/"), ("\u{e9}", "\u{e9}"), ("\t", "\n")] {
            let text = format!("{before}{letter}{after}");
            assert_eq!(plain(&text), format!("{before}{}{after}", escaped(*letter)), "{text:?}");
            assert!(has_hidden(&text), "{text:?}");
        }
        assert!(!visible::name(&letter.to_string()).contains(*letter), "{letter:?}");
        values += 1;
    }
    for (text, shown) in TEXTS {
        assert_eq!(plain(text), *shown, "{text:?}");
        assert!(has_hidden(text), "{text:?}");
    }
    assert!(120 <= values, "{values} values");
}

#[test]
fn text_of_many_languages_and_emoji_stay_as_they_are() {
    for text in HARMLESS {
        assert_eq!(plain(text), *text, "{text:?}");
        assert!(!has_hidden(text), "{text:?}");
    }
    assert_eq!(plain("one\r\ntwo"), "one\ntwo");
}

#[test]
fn text_that_imitates_an_escape_is_told_apart() {
    assert_eq!(plain("\\u{1b}"), "\\u{5c}u{1b}");
    assert_eq!(plain("\\\\u{1b}\u{1b}u{"), "\\\\u{5c}u{1b}\\u{1b}u{");
    assert!(!has_hidden("'\\u{1f600}'"), "code is not hidden text");
    assert_eq!(
        segments("\\u{7}\u{7}").collect::<Vec<_>>(),
        [Segment::Backslash, Segment::Text("u{7}"), Segment::Hidden('\u{7}'),]
    );
    assert_eq!(visible::name("\\u{7}"), "\\u{5c}u{7}");
    assert_eq!(visible::guarded(&plain("\\u{7}\u{7}")), plain("\\u{7}\u{7}"), "made visible once");
}

#[test]
fn json_keeps_its_meaning() {
    let text = "{\"a\":\"\u{9b}31m\u{7f}\u{e0041}\\u{\"}\n";
    assert_eq!(visible::json(text), "{\"a\":\"\\u009b31m\\u007f\\udb40\\udc41\\u{\"}\n");
}

/// Reads escapes of plain text back.
fn decoded(shown: &str) -> String {
    let mut text = String::new();
    let mut rest = shown;
    while let Some((before, after)) = rest.split_once("\\u{") {
        let (code, after) = after.split_once('}').unwrap();
        text.push_str(before);
        text.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
        rest = after;
    }
    text + rest
}

#[test]
fn emoji_and_marks_that_come_in_pieces_stay_text() {
    let family =
        "a \u{1f468}\u{1f3fd}\u{200d}\u{1f469}\u{200d}\u{1f467} نمی\u{200c}خواهم é\u{301} \u{2764}\u{fe0f}\r\nend";
    let mut text = StreamedText::default();
    let mut shown: String = family.chars().map(|letter| plain(&text.push(letter.encode_utf8(&mut [0; 4])))).collect();
    shown.push_str(&plain(&text.finish()));
    assert_eq!(shown, plain(family));
    assert_eq!(text.push("plain"), "plain");
}

proptest! {
    #[test]
    fn no_piece_is_lost(pieces in prop::collection::vec("(?s)(.|[\u{200b}-\u{200f}\u{300}-\u{305}\r]){0,4}", 0..6)) {
        let mut text = StreamedText::default();
        let mut given: String = pieces.iter().map(|piece| text.push(piece)).collect();
        given.push_str(&text.finish());
        prop_assert_eq!(given, pieces.concat());
    }

    #[test]
    fn different_texts_look_different(text in "(?s)(.|\\\\u\\{|\\{1b\\}|[\u{200b}-\u{200f}\u{300}-\u{305}\\\\]){0,20}") {
        prop_assert_eq!(decoded(&plain(&text)), text.replace("\r\n", "\n"));
        prop_assert_eq!(visible::unmarked(&visible::marked(&text)).replace("\r\n", "\n"), text.replace("\r\n", "\n"));
    }

    #[test]
    fn nothing_hidden_is_left(text in "(?s).{0,40}") {
        let shown = plain(&text);
        prop_assert!(!has_hidden(&shown), "{:?}", shown);
        prop_assert_eq!(visible::guarded(&shown), shown);
    }
}
