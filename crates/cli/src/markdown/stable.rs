//! How much of an unfinished block can be written, because nothing that follows changes how it looks.
//!
//! All but the last leaf of the block is final: another leaf has begun. The last one is final up to here:
//!
//! | leaf | final |
//! |---|---|
//! | paragraph, heading | up to the first markup that is open (`inline.rs`); the layout holds back the last word |
//! | code | complete lines, without blank lines at the end |
//! | table, HTML, a line that can become the head of a table | nothing, until it has ended |
//!
//! An underline makes a paragraph a heading afterwards: such a heading is drawn as a paragraph and a line below it.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::{
    inline::{self, InlineKind},
    options,
    source::may_be_head,
};

/// What a blank line consists of, in quotes too.
const BLANK: [char; 4] = [' ', '\t', '>', '\n'];

/// The last leaf of a block, from its first byte.
#[derive(Clone, Copy, Debug)]
enum Leaf {
    /// None since the last mark of a container, or one that cannot go on.
    Ended,
    Text {
        start: usize,
        kind: InlineKind,
    },
    Code {
        start: usize,
    },
    Html {
        start: usize,
    },
    Table {
        start: usize,
    },
}

/// Length of the part of an unfinished block that is final. The block structure of the text is (`Source::decided`).
pub(super) fn length(text: &str) -> usize {
    match last_leaf(text) {
        Leaf::Ended => text.len(),
        Leaf::Code { start } => complete_code(text).max(line_start(text, start)),
        Leaf::Html { start } => line_start(text, start),
        Leaf::Text { .. } | Leaf::Table { .. } if ends_with_blank_line(text) => text.len(),
        Leaf::Table { start } => line_start(text, start),
        Leaf::Text { kind: InlineKind::Heading, .. } if text.ends_with('\n') => text.len(),
        Leaf::Text { start, kind } => {
            let last_line = line_start(text, text.trim_end_matches('\n').len());
            let end = if may_be_head(&text[last_line..]) { last_line } else { text.len() };
            if end < start { end } else { start + inline::closed(&text[start..end], kind) }
        }
    }
}

fn last_leaf(text: &str) -> Leaf {
    let mut leaf = Leaf::Ended;
    let mut is_open = false;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(tag) if is_block(&tag.to_end()) => {
                leaf = begin(&tag, range.start);
                is_open = true;
            }
            Event::End(tag) if is_block(&tag) => is_open = false,
            Event::Rule => leaf = Leaf::Ended,
            Event::End(_) => {}
            _ if is_open && !matches!(leaf, Leaf::Ended) => {}
            // Items of a tight list have no paragraphs.
            _ => {
                let is_escaped = text[..range.start].ends_with('\\');
                leaf = Leaf::Text { start: range.start - usize::from(is_escaped), kind: InlineKind::Paragraph };
                is_open = true;
            }
        }
    }
    leaf
}

fn begin(tag: &Tag<'_>, start: usize) -> Leaf {
    match tag {
        Tag::Paragraph => Leaf::Text { start, kind: InlineKind::Paragraph },
        Tag::Heading { .. } => Leaf::Text { start, kind: InlineKind::Heading },
        Tag::CodeBlock(_) => Leaf::Code { start },
        Tag::HtmlBlock => Leaf::Html { start },
        Tag::Table(_) => Leaf::Table { start },
        _ => Leaf::Ended,
    }
}

fn is_block(tag: &TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::BlockQuote(_)
            | TagEnd::CodeBlock
            | TagEnd::HtmlBlock
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::Table
    )
}

/// Length of the text up to the last complete line that is not blank.
fn complete_code(text: &str) -> usize {
    let lines = text.rfind('\n').map_or(0, |at| at + 1);
    let shown = text[..lines].trim_end_matches(BLANK).len();
    text[shown..lines].find('\n').map_or(lines, |end| shown + end + 1)
}

fn ends_with_blank_line(text: &str) -> bool {
    let last_line = text.strip_suffix('\n').map(|text| &text[line_start(text, text.len())..]);
    last_line.is_some_and(|line| line.trim_matches(BLANK).is_empty())
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}
