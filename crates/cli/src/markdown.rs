//! Markdown for a terminal, written while it arrives. Output is append-only: what was written is never changed.
//!
//! | part | file |
//! |---|---|
//! | text as it arrives, up to where its blocks are certain | `markdown/source.rs` |
//! | how much of an unfinished block can be written | `markdown/stable.rs`, `markdown/inline.rs` |
//! | a block as styled characters, wrapped to the width | `markdown/render.rs`, `markdown/layout.rs` |
//! | tables | `markdown/table.rs` |
//! | colours of code | `markdown/highlight.rs` |
//! | styles, and their control sequences | `markdown/style.rs` |
//!
//! A block is rendered again whenever more of it arrives, always in the structure of all its text, up to where it is final;
//! the characters beyond those already written are appended.
//! Text of a model is untrusted: control sequences in it are removed.

mod highlight;
mod inline;
mod layout;
mod render;
mod source;
mod stable;
mod style;
mod table;

use pulldown_cmark::{Event, Options, Parser};

use crate::output::Colour;
use source::Source;
use style::{Cell, Pen};

/// Widest line of text, on terminals of any width.
const WIDEST: usize = 120;

/// Renders one message.
#[derive(Debug)]
pub(crate) struct MarkdownWriter {
    width: usize,
    colour: Colour,
    /// Text from the first unfinished block on.
    source: Source,
    /// What is written of that block.
    written: Vec<Cell>,
    pen: Pen,
    /// Whether a block was written before this one.
    is_later: bool,
}

impl MarkdownWriter {
    pub(crate) fn new(width: usize, colour: Colour) -> Self {
        let width = width.clamp(10, WIDEST);
        let source = Source::default();
        Self { width, colour, source, written: Vec::new(), pen: Pen::new(colour), is_later: false }
    }

    /// Adds text; returns what to write now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.source.push(text);
        // Only these end a word or a line.
        if !text.contains(|letter: char| letter.is_whitespace() || !letter.is_ascii()) {
            return String::new();
        }
        let decided = self.source.decided();
        let mut out = String::new();
        let open = self.complete_all_but_last(&decided, &mut out);
        self.source.forget(open);
        let open = &decided[open..];
        self.append(render::beginning(open, stable::length(open), self.width, self.colour), &mut out);
        out
    }

    /// Ends the message; returns the rest of it.
    pub(crate) fn finish(&mut self) -> String {
        self.source.end();
        let text = self.source.decided();
        self.source.forget(text.len());
        let mut out = String::new();
        let last = self.complete_all_but_last(&text, &mut out);
        self.complete(&text[last..], &mut out);
        self.is_later = false;
        out
    }

    /// Writes the blocks that are finished, because another one has begun. Returns where the last one begins.
    fn complete_all_but_last(&mut self, text: &str, out: &mut String) -> usize {
        let starts = block_starts(text);
        for block in starts.windows(2) {
            self.complete(&text[block[0]..block[1]], out);
        }
        starts.last().copied().unwrap_or(0)
    }

    fn complete(&mut self, block: &str, out: &mut String) {
        self.append(render::block(block, self.width, self.colour), out);
        if !self.written.is_empty() {
            out.push('\n');
            self.is_later = true;
        }
        self.written.clear();
    }

    /// Appends what a block has beyond the part that is written.
    fn append(&mut self, cells: Vec<Cell>, out: &mut String) {
        debug_assert!(cells.starts_with(&self.written), "written: {:?}, now: {cells:?}", self.written);
        if cells.len() <= self.written.len() {
            return;
        }
        if self.written.is_empty() && self.is_later {
            out.push('\n');
        }
        for cell in &cells[self.written.len()..] {
            self.pen.write(*cell, out);
        }
        out.push_str(self.pen.reset());
        self.written = cells;
    }
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Where the top-level blocks of a text begin; each begins with its line.
fn block_starts(text: &str) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut depth = 0_usize;
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        if depth == 0 && matches!(event, Event::Start(_) | Event::Rule) {
            starts.push(text[..range.start].rfind('\n').map_or(0, |end| end + 1));
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    starts
}

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
