//! Markdown for a terminal, written while it arrives. Output is append-only: what was written is never changed.
//!
//! | part | file |
//! |---|---|
//! | how much of an unfinished block can be written | `markdown/stable.rs` |
//! | a block as styled characters, wrapped to the width | `markdown/render.rs`, `markdown/layout.rs` |
//! | tables | `markdown/table.rs` |
//! | styles, and their control sequences | `markdown/style.rs` |
//!
//! A block is rendered again whenever more of it arrives, and the characters beyond those already written are appended.
//! Text of a model is untrusted: control sequences in it are removed.

mod layout;
mod render;
mod stable;
mod style;
mod table;

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser};

use crate::output::Colour;
use style::{Cell, Pen};

/// Widest line of text, on terminals of any width.
const WIDEST: usize = 120;

/// Renders one message.
#[derive(Debug)]
pub(crate) struct MarkdownWriter {
    width: usize,
    colour: Colour,
    /// Text from the first unfinished block on.
    pending: String,
    /// What is written of that block.
    written: Vec<Cell>,
    pen: Pen,
    /// Whether a block was written before this one.
    is_later: bool,
}

impl MarkdownWriter {
    pub(crate) fn new(width: usize, colour: Colour) -> Self {
        let width = width.clamp(10, WIDEST);
        Self { width, colour, pending: String::new(), written: Vec::new(), pen: Pen::new(colour), is_later: false }
    }

    /// Adds text; returns what to write now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        self.pending.push_str(text);
        let mut out = String::new();
        let (finished, open) = split(&self.pending);
        for block in finished {
            let text = self.pending[block].to_owned();
            self.complete(&text, &mut out);
        }
        let open_text = self.pending[open.clone()].to_owned();
        self.pending.drain(..open.start);
        if let Some(stable) = stable::prefix(&open_text, self.room_left()) {
            self.append(stable, &mut out);
        }
        out
    }

    /// Ends the message; returns the rest of it.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        let pending = std::mem::take(&mut self.pending);
        for block in blocks(&pending) {
            self.complete(&pending[block], &mut out);
        }
        self.is_later = false;
        out
    }

    /// Columns that are free on the current line.
    fn room_left(&self) -> usize {
        let column: usize =
            self.written.iter().rev().take_while(|cell| cell.letter != '\n').map(|cell| cell.columns()).sum();
        self.width.saturating_sub(column)
    }

    fn complete(&mut self, block: &str, out: &mut String) {
        self.append(block, out);
        if !self.written.is_empty() {
            out.push_str(self.pen.reset());
            out.push('\n');
            self.is_later = true;
        }
        self.written.clear();
    }

    /// Appends what a block has beyond the part that is written.
    fn append(&mut self, block: &str, out: &mut String) {
        let cells = render::block(block, self.width, self.colour);
        if cells.is_empty() {
            return;
        }
        if self.written.is_empty() && self.is_later {
            out.push('\n');
        }
        let start = continuation(&self.written, &cells).unwrap_or_else(|| {
            // The block turned out to be another one, such as a table. It is written as a whole.
            out.push('\n');
            0
        });
        for cell in &cells[start..] {
            self.pen.write(*cell, out);
        }
        out.push_str(self.pen.reset());
        if start < cells.len() || self.written.len() < cells.len() {
            self.written = cells;
        }
    }
}

/// Where `new` continues after `written`; `None` if it does not. Line breaks may differ: a word that was written before
/// its end was known is not moved to the next line.
fn continuation(written: &[Cell], new: &[Cell]) -> Option<usize> {
    let mut position = 0;
    for cell in written.iter().filter(|cell| !cell.letter.is_whitespace()) {
        while new.get(position)?.letter.is_whitespace() {
            position += 1;
        }
        if new[position].letter != cell.letter {
            return None;
        }
        position += 1;
    }
    // Whitespace after the last letter that is written already.
    let trailing = written.iter().rev().take_while(|cell| cell.letter.is_whitespace()).count();
    let same = new[position..].iter().take(trailing).take_while(|cell| cell.letter.is_whitespace()).count();
    Some(position + same)
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// The blocks that are finished, because another one has begun, and the open one as far as it can be shown.
fn split(text: &str) -> (Vec<Range<usize>>, Range<usize>) {
    let mut blocks = blocks(text);
    let Some(last) = blocks.pop() else { return (blocks, 0..text.len()) };
    let line = text.rfind('\n').map_or(0, |at| at + 1);
    let is_apart = text[..last.start].trim_end_matches([' ', '\t']).ends_with("\n\n");
    match blocks.pop() {
        // An unfinished line right after a block can still belong to it.
        Some(before) if last.start >= line && !is_apart => (blocks, before.start..line),
        Some(before) => {
            blocks.push(before);
            (blocks, last.start..text.len())
        }
        None => (blocks, last.start..text.len()),
    }
}

/// The top-level blocks of a text.
fn blocks(text: &str) -> Vec<Range<usize>> {
    let (mut blocks, mut depth) = (Vec::new(), 0_usize);
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(_) => {
                if depth == 0 {
                    blocks.push(range);
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Rule | Event::Html(_) if depth == 0 => blocks.push(range),
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests;
