//! One block as styled characters.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};

use super::{
    layout::Layout,
    options,
    style::{Cell, Style},
    table::Table,
};
use crate::output::{Colour, clean};

/// Renders one block. It has no line break at its end.
pub(super) fn block(text: &str, width: usize, colour: Colour) -> Vec<Cell> {
    let mut renderer = Renderer::new(width, colour);
    for event in Parser::new_ext(text, options()) {
        renderer.event(event);
    }
    renderer.layout.into_cells()
}

struct Renderer {
    layout: Layout,
    width: usize,
    colour: Colour,
    style: Style,
    /// Numbers of the open lists; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// Address of the open link, and its text so far.
    links: Vec<(String, String)>,
    table: Option<Table>,
    in_code_block: bool,
}

const DIM: Style = Style { dim: true, bold: false, italic: false, underlined: false, struck: false, code: false };

impl Renderer {
    fn new(width: usize, colour: Colour) -> Self {
        Self {
            layout: Layout::new(width),
            width,
            colour,
            style: Style::default(),
            lists: Vec::new(),
            links: Vec::new(),
            table: None,
            in_code_block: false,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.in_code_block => self.code_lines(&text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(code) | Event::InlineMath(code) | Event::DisplayMath(code) => self.inline_code(&code),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.layout.new_line(),
            Event::Rule => self.layout.verbatim(&"─".repeat(self.width.min(40)), DIM),
            Event::TaskListMarker(is_done) => self.text(if is_done { "[x] " } else { "[ ] " }),
            Event::FootnoteReference(name) => self.text(&format!("[{name}]")),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => self.layout.fresh_line(),
            Tag::Heading { level, .. } => {
                self.layout.fresh_line();
                self.style.bold = true;
                self.style.underlined = level == HeadingLevel::H1;
            }
            Tag::BlockQuote(_) => self.layout.indent("│ ", "│ ", DIM),
            Tag::CodeBlock(kind) => self.start_code(&kind),
            Tag::List(first) => {
                self.layout.fresh_line();
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Table(alignments) => self.table = Some(Table::new(alignments)),
            Tag::Emphasis => self.style.italic = true,
            Tag::Strong => self.style.bold = true,
            Tag::Strikethrough => self.style.struck = true,
            Tag::Link { dest_url, .. } => {
                self.links.push((dest_url.into_string(), String::new()));
                self.style.underlined = true;
            }
            Tag::Image { dest_url, .. } => {
                self.text("[image: ");
                self.links.push((dest_url.into_string(), String::new()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => self.style = Style::default(),
            TagEnd::BlockQuote(_) | TagEnd::Item => self.layout.outdent(),
            TagEnd::CodeBlock => {
                self.in_code_block = false;
                self.layout.outdent();
            }
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::TableCell => {
                if let Some(table) = &mut self.table {
                    table.end_cell();
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {
                if let Some(table) = &mut self.table {
                    table.end_row();
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.layout.fresh_line();
                    self.layout.raw(table.into_cells(self.width));
                }
            }
            TagEnd::Emphasis => self.style.italic = false,
            TagEnd::Strong => self.style.bold = false,
            TagEnd::Strikethrough => self.style.struck = false,
            TagEnd::Link => self.end_link(),
            TagEnd::Image => {
                self.links.pop();
                self.text("]");
            }
            _ => {}
        }
    }

    /// The address of a link is always visible: a text must not hide where it leads.
    fn end_link(&mut self) {
        self.style.underlined = false;
        let Some((address, text)) = self.links.pop() else { return };
        if address != text && address.strip_prefix("mailto:") != Some(text.as_str()) {
            self.push_styled(&format!(" ({address})"), DIM);
        }
    }

    fn start_item(&mut self) {
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "• ".to_owned(),
        };
        self.layout.indent(&marker, &" ".repeat(marker.chars().count()), Style::default());
    }

    fn start_code(&mut self, kind: &CodeBlockKind<'_>) {
        self.layout.indent("  ", "  ", Style::default());
        self.in_code_block = true;
        if let CodeBlockKind::Fenced(language) = kind
            && !language.is_empty()
        {
            self.layout.verbatim(&clean::flat(language), DIM);
        }
    }

    fn code_lines(&mut self, text: &str) {
        let text = clean::text(text);
        for line in text.lines() {
            self.layout.verbatim(&line.replace('\t', "    "), Style { code: true, ..Style::default() });
        }
    }

    fn inline_code(&mut self, code: &str) {
        let style = Style { code: true, ..self.style };
        match self.colour {
            Colour::Yes => self.push_styled(code, style),
            Colour::No => self.push_styled(&format!("`{code}`"), style),
        }
    }

    fn text(&mut self, text: &str) {
        if let Some((_, shown)) = self.links.last_mut() {
            shown.push_str(text);
        }
        self.push_styled(text, self.style);
    }

    fn push_styled(&mut self, text: &str, style: Style) {
        let text = clean::text(text);
        match &mut self.table {
            Some(table) => table.text(&text, style),
            None => self.layout.text(&text, style),
        }
    }
}
