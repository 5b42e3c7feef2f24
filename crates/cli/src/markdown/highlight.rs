//! Colours of code: comments, quoted text, numbers and keywords of common languages, line by line. What a line looks like
//! depends on the lines before it and on nothing after it.

use super::style::Paint;

/// Colours the lines of one code block, in their order.
#[derive(Debug)]
pub(super) struct Highlighter {
    language: Option<&'static Language>,
    /// The end of a comment or text that began on a line before.
    open: Option<Span>,
}

/// What a language looks like.
#[derive(Debug)]
struct Language {
    /// As in the first line of a code block.
    names: &'static [&'static str],
    keywords: &'static str,
    /// Begins a comment up to the end of the line.
    comment: &'static [&'static str],
    /// Comments and texts that may contain line breaks.
    spans: &'static [Span],
    /// Marks around quoted text on one line.
    quotes: &'static str,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    begin: &'static str,
    end: &'static str,
    paint: Paint,
}

const C_COMMENT: Span = Span { begin: "/*", end: "*/", paint: Paint::Comment };
const TEMPLATE: Span = Span { begin: "`", end: "`", paint: Paint::Quoted };

const LANGUAGES: &[Language] = &[
    Language {
        names: &["rust", "rs"],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod \
                   move mut pub ref return self Self static struct super trait true type unsafe use where while",
        comment: &["//"],
        spans: &[C_COMMENT],
        quotes: "\"",
    },
    Language {
        names: &["javascript", "js", "jsx", "typescript", "ts", "tsx"],
        keywords: "abstract as async await break case catch class const continue default delete do else enum export extends \
                   false finally for from function if implements import in instanceof interface let new null of private \
                   public readonly return static super switch this throw true try type typeof undefined var void while yield",
        comment: &["//"],
        spans: &[C_COMMENT, TEMPLATE],
        quotes: "\"'",
    },
    Language {
        names: &["python", "py"],
        keywords: "and as assert async await break class continue def del elif else except False finally for from global if \
                   import in is lambda None nonlocal not or pass raise return True try while with yield",
        comment: &["#"],
        spans: &[
            Span { begin: "\"\"\"", end: "\"\"\"", paint: Paint::Quoted },
            Span { begin: "'''", end: "'''", paint: Paint::Quoted },
        ],
        quotes: "\"'",
    },
    Language {
        names: &["go", "golang"],
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if import interface \
                   map nil package range return select struct switch true type var",
        comment: &["//"],
        spans: &[C_COMMENT, TEMPLATE],
        quotes: "\"'",
    },
    Language {
        names: &["c", "h", "cpp", "c++", "cc", "java", "kotlin", "kt", "csharp", "cs", "c#", "swift", "scala", "php"],
        keywords: "abstract auto bool boolean break case catch char class const constexpr continue default delete do double \
                   else enum extends extern false final finally float for fun func if implements import in include int \
                   interface let long namespace new null nullptr override package private protected public return short \
                   signed sizeof static struct super switch template this throw true try typedef typename union unsigned \
                   using val var virtual void volatile when while",
        comment: &["//"],
        spans: &[C_COMMENT],
        quotes: "\"'",
    },
    Language {
        names: &["sh", "bash", "shell", "zsh", "console"],
        keywords: "case do done elif else esac export fi for function if in local return set then unset until while",
        comment: &["#"],
        spans: &[],
        quotes: "\"'",
    },
    Language {
        names: &["ruby", "rb"],
        keywords: "begin break case class def do else elsif end ensure false for if in module next nil not or raise require \
                   rescue return self super then true unless until when while yield",
        comment: &["#"],
        spans: &[],
        quotes: "\"'",
    },
    Language {
        names: &["sql"],
        keywords: "ALTER AND AS ASC BETWEEN BY CASE CREATE DELETE DESC DISTINCT DROP ELSE END EXISTS FROM GROUP HAVING IN INDEX \
                   INNER INSERT INTO IS JOIN LEFT LIKE LIMIT NOT NULL ON OR ORDER OUTER PRIMARY RIGHT SELECT SET TABLE THEN \
                   UNION UPDATE VALUES VIEW WHEN WHERE WITH alter and as asc between by case create delete desc distinct drop \
                   else end exists from group having in index inner insert into is join left like limit not null on or order \
                   outer primary right select set table then union update values view when where with",
        comment: &["--"],
        spans: &[C_COMMENT],
        quotes: "'\"",
    },
    Language {
        names: &["json", "jsonc", "json5"],
        keywords: "true false null",
        comment: &["//"],
        spans: &[],
        quotes: "\"",
    },
    Language {
        names: &["yaml", "yml", "toml", "ini"],
        keywords: "true false null yes no",
        comment: &["#"],
        spans: &[],
        quotes: "\"'",
    },
];

impl Highlighter {
    /// `info` is what stands after the fence; its first word is the language.
    pub(super) fn new(info: &str) -> Self {
        let name = info.split([' ', ',', '{']).next().unwrap_or_default().to_ascii_lowercase();
        Self { language: LANGUAGES.iter().find(|language| language.names.contains(&name.as_str())), open: None }
    }

    /// The colour of each character of the next line.
    pub(super) fn line(&mut self, line: &str) -> Vec<Paint> {
        let mut paints = Vec::with_capacity(line.len());
        let mut at = 0;
        while at < line.len() {
            let token = self.token(line, at);
            paints.extend(line[at..token.end].chars().map(|_| token.paint));
            at = token.end;
        }
        paints
    }

    fn token(&mut self, line: &str, at: usize) -> Token {
        let whole = Token { end: line.len(), paint: Paint::Code };
        let Some(language) = self.language else { return whole };
        if let Some(span) = self.open {
            return self.span(span, line, at);
        }
        let rest = &line[at..];
        if let Some(span) = language.spans.iter().find(|span| rest.starts_with(span.begin)) {
            return self.span(*span, line, at + span.begin.len());
        }
        if language.begins_comment(line, at) {
            return Token { paint: Paint::Comment, ..whole };
        }
        match rest.chars().next() {
            Some(quote) if language.quotes.contains(quote) => quoted(line, at, quote),
            Some(letter) if is_word(letter) => language.word(line, at),
            Some(letter) => Token { end: at + letter.len_utf8(), paint: Paint::Code },
            None => whole,
        }
    }

    /// The part of a span on this line; the span stays open if its end is not there.
    fn span(&mut self, span: Span, line: &str, from: usize) -> Token {
        let end = line[from..].find(span.end);
        self.open = if end.is_some() { None } else { Some(span) };
        Token { end: end.map_or(line.len(), |end| from + end + span.end.len()), paint: span.paint }
    }
}

/// Characters of one colour, up to a byte of the line.
struct Token {
    end: usize,
    paint: Paint,
}

impl Language {
    fn begins_comment(&self, line: &str, at: usize) -> bool {
        let mark = self.comment.iter().find(|mark| line[at..].starts_with(**mark));
        // In a shell, `#` inside a word is text.
        mark.is_some_and(|mark| *mark != "#" || line[..at].chars().next_back().is_none_or(char::is_whitespace))
    }

    fn word(&self, line: &str, at: usize) -> Token {
        let end = line[at..].find(|letter| !is_word(letter)).map_or(line.len(), |length| at + length);
        let word = &line[at..end];
        let paint = if word.starts_with(|letter: char| letter.is_ascii_digit()) {
            Paint::Number
        } else if self.keywords.split_whitespace().any(|keyword| keyword == word) {
            Paint::Keyword
        } else {
            Paint::Code
        };
        Token { end, paint }
    }
}

/// Quoted text up to its end, or to the end of the line.
fn quoted(line: &str, at: usize, quote: char) -> Token {
    let mut is_escaped = false;
    for (offset, letter) in line[at..].char_indices().skip(1) {
        if letter == quote && !is_escaped {
            return Token { end: at + offset + letter.len_utf8(), paint: Paint::Quoted };
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    Token { end: line.len(), paint: Paint::Quoted }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}
