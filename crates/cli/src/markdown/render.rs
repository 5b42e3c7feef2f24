//! One block as styled characters.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Parser, Tag, TagEnd};

use super::{
    highlight::Highlighter,
    layout::Layout,
    options,
    source::original,
    style::{Cell, Paint, Style},
    table::Table,
};
use crate::output::{Colour, clean};

/// Renders one block. It has no line break at its end.
pub(super) fn block(text: &str, width: usize, colour: Colour) -> Vec<Cell> {
    let mut renderer = Renderer::new(width, colour);
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        renderer.event(event, &text[range]);
    }
    renderer.layout.into_cells()
}

/// Renders the first `length` bytes of a block, in the structure of the whole text. A last word that may go on is left out.
pub(super) fn beginning(text: &str, length: usize, width: usize, colour: Colour) -> Vec<Cell> {
    let mut renderer = Renderer::new(width, colour);
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        let is_final = match event {
            Event::Start(_) => range.start < length,
            // It may go on.
            Event::End(_) => range.end < length,
            _ => range.end <= length,
        };
        if is_final {
            renderer.event(event, &text[range]);
            continue;
        }
        if let Event::Text(shown) = event
            && shown.len() == range.len()
            && range.start < length
        {
            renderer.event(Event::Text(text[range.start..length].into()), "");
        }
        break;
    }
    if text[..length].ends_with(char::is_whitespace) {
        renderer.layout.end_word();
    }
    renderer.layout.into_whole_words()
}

struct Renderer {
    layout: Layout,
    colour: Colour,
    style: Style,
    /// Numbers of the open lists; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// Address of the open link, and its text so far.
    links: Vec<(String, String)>,
    table: Option<Table>,
    /// In a code block.
    code: Option<Highlighter>,
}

const PLAIN: Style =
    Style { dim: false, bold: false, italic: false, underlined: false, struck: false, paint: Paint::None };
const DIM: Style = Style { dim: true, ..PLAIN };
const WIDEST_RULE: usize = 40;

impl Renderer {
    fn new(width: usize, colour: Colour) -> Self {
        Self {
            layout: Layout::new(width),
            colour,
            style: Style::default(),
            lists: Vec::new(),
            links: Vec::new(),
            table: None,
            code: None,
        }
    }

    fn event(&mut self, event: Event<'_>, source: &str) {
        match event {
            Event::Start(tag) => self.start(tag, source),
            Event::End(tag) => self.end(tag, source),
            Event::Text(text) if self.code.is_some() => self.code_lines(&text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(code) | Event::InlineMath(code) | Event::DisplayMath(code) => self.inline_code(&code),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.layout.fresh_line(),
            Event::Rule => self.rule(),
            Event::TaskListMarker(is_done) => self.text(if is_done { "[x] " } else { "[ ] " }),
            Event::FootnoteReference(name) => self.text(&format!("[{name}]")),
        }
    }

    fn start(&mut self, tag: Tag<'_>, source: &str) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.layout.fresh_line(),
            Tag::Heading { .. } if is_underlined(source) => self.layout.fresh_line(),
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
            Tag::Strikethrough if is_one_tilde(source) => self.text("~"),
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

    fn end(&mut self, tag: TagEnd, source: &str) {
        match tag {
            TagEnd::Heading(_) if is_underlined(source) => self.rule(),
            TagEnd::Heading(_) => {
                self.style = Style::default();
                self.layout.fresh_line();
            }
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.layout.fresh_line(),
            TagEnd::BlockQuote(_) | TagEnd::Item => self.layout.outdent(),
            TagEnd::CodeBlock => {
                self.code = None;
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
                    for line in table.into_cells(self.layout.room()).split(|cell| cell.letter == '\n') {
                        self.layout.verbatim(line);
                    }
                }
            }
            TagEnd::Emphasis => self.style.italic = false,
            TagEnd::Strong => self.style.bold = false,
            TagEnd::Strikethrough if is_one_tilde(source) => self.text("~"),
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
        let language = match kind {
            CodeBlockKind::Fenced(language) => language.as_ref(),
            CodeBlockKind::Indented => "",
        };
        self.code = Some(Highlighter::new(language));
        if !language.is_empty() {
            self.layout.verbatim(&Cell::all(&clean::flat(&original(language)), DIM));
        }
    }

    fn code_lines(&mut self, text: &str) {
        let text = clean::text(&original(text));
        for line in text.lines() {
            let line = line.replace('\t', "    ");
            let paints = self.code.as_mut().map(|code| code.line(&line)).unwrap_or_default();
            let cells = line.chars().zip(paints).map(|(letter, paint)| Cell::new(letter, Style { paint, ..PLAIN }));
            self.layout.verbatim(&cells.collect::<Vec<_>>());
        }
    }

    fn rule(&mut self) {
        let columns = self.layout.room().min(WIDEST_RULE);
        self.layout.verbatim(&Cell::all(&"─".repeat(columns), DIM));
    }

    fn inline_code(&mut self, code: &str) {
        let style = Style { paint: Paint::Code, ..self.style };
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
        let text = clean::text(&original(text));
        match &mut self.table {
            Some(table) => table.text(&text, style),
            None => self.layout.text(&text, style),
        }
    }
}

/// Whether a heading is one by the line below it. It looks like the paragraph that it was while that line was missing.
fn is_underlined(source: &str) -> bool {
    let text = source.trim_start_matches('#');
    text.len() == source.len() || !(text.is_empty() || text.starts_with(char::is_whitespace))
}

/// One tilde is text, as in `~5 minutes`.
fn is_one_tilde(source: &str) -> bool {
    !source.starts_with("~~")
}
