//! URLs inside a text: where they begin, and where they end.

use super::canonical::SPECIAL_SCHEMES;

/// Bytes of a scheme.
const MAX_SCHEME: usize = 32;
/// Bytes of a URL that can be compared with an earlier one. A longer one is always new.
pub(crate) const MAX_URL: usize = 8 * 1024;
/// Characters of punctuation after a URL in an argument.
const MAX_PUNCTUATION: usize = 3;
/// Characters of punctuation after a URL in a text that was shown to the model.
const MAX_TRIMMED: usize = 16;
/// Bytes that are looked at for each byte of a text: URLs can contain each other.
const WORK_PER_BYTE: usize = 4;
/// Bytes that are looked at in any text.
const LEAST_WORK: usize = 512 * 1024;
/// Bytes of a user name and password before a host.
const MAX_USER: usize = 2_000;
/// What stands after a URL in a sentence and is not part of it.
const PUNCTUATION: &[char] = &[
    '.', ',', ';', ':', '!', '?', '\'', '*', '_', ')', ']', '}', '”', '’', '»', '…', '。', '，', '、', '）', '】', '」',
];

/// A URL inside a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UrlToken<'t> {
    pub(crate) text: &'t str,
    /// As a reader takes it that ends URLs at white space and double quotes only: `(https://a.example)@b.example` names `b`.
    wide: &'t str,
    /// Position in the text.
    pub(crate) start: usize,
    pub(crate) form: UrlForm,
    /// Length of the scheme without its colon.
    pub(crate) scheme: usize,
    pub(crate) place: UrlPlace,
}

/// Where a URL stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlPlace {
    Text,
    /// Inside another URL, where `&` ends it.
    Nested,
}

/// The URLs of a text, one after the other. The work is bounded, because each can contain all that follow.
pub(crate) struct UrlTokens<'t> {
    text: &'t str,
    from: usize,
    /// Where the last URL ends that contains others.
    outer_end: usize,
    /// Bytes that may still be looked at.
    work: usize,
}

/// The next URL of a text.
pub(crate) enum NextUrl<'t> {
    Found(UrlToken<'t>),
    End,
    /// The rest of the text was not searched.
    TooMuch,
}

/// How a URL names its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlForm {
    /// `scheme://host`
    Absolute,
    /// `https:host`, `https:/host`, `https:\\host`: schemes that always have a host.
    Special,
    /// `//host`, `\\host`
    SchemeRelative,
}

impl<'t> UrlToken<'t> {
    /// The scheme; empty without one.
    pub(crate) fn scheme(&self) -> &'t str {
        &self.text[..self.scheme]
    }

    /// What follows the scheme and its colon.
    pub(crate) fn after_scheme(&self) -> &'t str {
        match self.form {
            UrlForm::SchemeRelative => self.text,
            UrlForm::Absolute | UrlForm::Special => &self.text[self.scheme + 1..],
        }
    }

    /// Where a search for URLs inside this one continues.
    pub(crate) fn inside(&self) -> usize {
        let rest = self.after_scheme();
        let slashes = rest.len() - rest.trim_start_matches(['/', '\\']).len();
        self.start + (self.text.len() - rest.len()) + slashes
    }

    /// The user name and host as a reader takes them that ends URLs at white space only, if they are others.
    pub(crate) fn wide_authority(&self) -> Option<&'t str> {
        let from = self.inside() - self.start;
        let of = |url: &'t str| url[from..].split(['/', '\\', '?', '#']).next().unwrap_or_default();
        let wide = of(self.wide);
        (of(self.text).len() < wide.len()).then_some(wide)
    }

    /// Whether this URL, which begins the token, ends for every reader where it ends. `(https://a.example/x)SECRET` does
    /// not; another URL may follow after punctuation.
    pub(crate) fn ends_with(&self, url: &str) -> bool {
        let rest = self.wide.get(url.len()..).unwrap_or_default();
        let Some(word) = rest.find(|c: char| c.is_ascii_alphanumeric()).map(|at| &rest[at..]) else { return true };
        let scheme = word.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "+-.".contains(c));
        scheme.starts_with("://")
    }

    /// The URL without the punctuation of the sentence that it ends; the whole if there is too much of it.
    pub(crate) fn without_punctuation(&self) -> &'t str {
        let shorter = without_punctuation(self.text);
        let removed = self.text[shorter.len()..].chars().count();
        if removed <= MAX_PUNCTUATION { shorter } else { self.text }
    }
}

/// Whether a text was searched to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Searched {
    Whole,
    Part,
}

/// The URLs of a text that was shown to the model, each in the ways in which it can be copied from there; at most this many.
pub(crate) fn recorded_urls(text: &str, most: usize, mut record: impl FnMut(&UrlToken<'_>, &str)) -> Searched {
    let mut tokens = UrlTokens::new(text);
    for _ in 0..most {
        let token = match tokens.next_url() {
            NextUrl::Found(token) => token,
            NextUrl::End => return Searched::Whole,
            NextUrl::TooMuch => return Searched::Part,
        };
        let ascii = token.text.find(|c: char| !c.is_ascii()).map_or(token.text, |end| &token.text[..end]);
        let mut recorded: Vec<&str> = Vec::new();
        for url in [token.text, without_punctuation(token.text), without_punctuation(ascii)] {
            if !recorded.contains(&url) && url.len() <= MAX_URL {
                recorded.push(url);
                record(&token, url);
            }
        }
    }
    Searched::Part
}

// === impl UrlTokens ===

impl<'t> UrlTokens<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, from: 0, outer_end: 0, work: LEAST_WORK + text.len().saturating_mul(WORK_PER_BYTE) }
    }

    /// The next URL. The one after it may stand inside of it.
    pub(crate) fn next_url(&mut self) -> NextUrl<'t> {
        let bytes = self.text.as_bytes();
        for position in self.from..bytes.len() {
            let found = match bytes[position] {
                b':' => self.after_scheme(position),
                b'/' | b'\\' if matches!(bytes.get(position + 1), Some(b'/' | b'\\')) => self.scheme_relative(position),
                _ => None,
            };
            if self.work == 0 {
                return NextUrl::TooMuch;
            }
            if let Some(token) = found {
                self.from = token.inside();
                self.outer_end = self.outer_end.max(token.start + token.text.len());
                return NextUrl::Found(token);
            }
        }
        NextUrl::End
    }

    /// Continues at this position.
    pub(crate) fn skip_to(&mut self, position: usize) {
        self.from = position;
    }

    fn after_scheme(&mut self, colon: usize) -> Option<UrlToken<'t>> {
        let bytes = self.text.as_bytes();
        let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let most = colon.saturating_sub(MAX_SCHEME).max(self.from);
        let before = bytes[most..colon].iter().rev().take_while(|byte| is_scheme(byte)).count();
        let letter = bytes[colon - before..colon].iter().position(u8::is_ascii_alphabetic)?;
        let start = colon - before + letter;
        let scheme = &self.text[start..colon];
        let rest = &self.text[colon + 1..];
        let is_special = SPECIAL_SCHEMES.iter().any(|special| special.eq_ignore_ascii_case(scheme));
        let form = match (rest.starts_with("//"), is_special) {
            (true, _) => UrlForm::Absolute,
            (false, true) => UrlForm::Special,
            (false, false) => return None,
        };
        let authority = rest.trim_start_matches(['/', '\\']);
        self.charge(rest.len() - authority.len());
        if !self.begins_authority(authority, form) {
            return None;
        }
        let token = self.token(start, form, scheme.len());
        let is_empty = start + token.text.len() <= colon + 1 + (rest.len() - authority.len());
        match is_empty {
            false => Some(token),
            // The URL standard removes control characters, or takes them for a user name.
            true if authority.starts_with(char::is_control) => Some(UrlToken { text: token.wide, ..token }),
            // A closing quote.
            true => None,
        }
    }

    /// `//host` counts where a URL can begin. A name without a dot counts only if something shows that it is a host, because
    /// `//` begins a comment in many languages.
    fn scheme_relative(&mut self, start: usize) -> Option<UrlToken<'t>> {
        let text = self.text;
        let before = text[..start].chars().next_back();
        let is_delimited = before.is_some_and(|before| "\"'`(<>[{=,;|".contains(before));
        if !(is_delimited || before.is_none_or(char::is_whitespace)) {
            return None;
        }
        let token = self.token(start, UrlForm::SchemeRelative, 0);
        let rest = token.text.trim_start_matches(['/', '\\']);
        let name = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
        if name.ends_with(':') {
            return None;
        }
        let says_host =
            without_punctuation(name).contains(['.', ':', '[', '@', '%', '。', '．']) || name.len() < rest.len();
        let is_whole = text.trim() == token.text && !token.text.starts_with('\\');
        let counts = says_host || is_whole || (is_delimited && !token.text.starts_with('\\'));
        (counts && self.begins_authority(rest, UrlForm::SchemeRelative)).then_some(token)
    }

    fn token(&mut self, start: usize, form: UrlForm, scheme: usize) -> UrlToken<'t> {
        let text = &self.text[start..end(self.text, start)];
        // The URL standard removes control characters at the end.
        let wide = self.text[start..wide_end(self.text, start + text.len())].trim_end_matches(char::is_control);
        self.charge(wide.len());
        let place = if start < self.outer_end { UrlPlace::Nested } else { UrlPlace::Text };
        UrlToken { text, wide, start, form, scheme, place }
    }

    /// Whether a host can begin here. After `://` it may begin with punctuation, and so may a user name before it:
    /// `https://;@a.example`, `https://'a.example`.
    fn begins_authority(&mut self, text: &str, form: UrlForm) -> bool {
        if text.starts_with(|c: char| !c.is_ascii() || c.is_alphanumeric() || "[%_-@{$*~!&+=".contains(c)) {
            return true;
        }
        let ends = |c: char| is_hard_end(c) || matches!(c, '/' | '?' | '#');
        let authority = text.char_indices().take(MAX_USER).find(|(_, c)| ends(*c));
        let authority = authority.map_or(text.floor_char_boundary(MAX_USER), |(position, _)| position);
        self.charge(authority);
        let authority = &text[..authority];
        let counts = match form {
            UrlForm::Absolute => authority,
            UrlForm::Special | UrlForm::SchemeRelative => authority.split_once('@').map_or("", |(_, host)| host),
        };
        counts.contains(|c: char| !c.is_ascii() || c.is_alphanumeric())
    }

    fn charge(&mut self, bytes: usize) {
        self.work = self.work.saturating_sub(bytes);
    }
}

/// Where a URL ends: at white space, at a character that no URL contains, or at the counterpart of what stands before it.
fn end(text: &str, start: usize) -> usize {
    let closing = text[..start].chars().next_back().and_then(|opening| match opening {
        '(' => Some(')'),
        '[' => Some(']'),
        '{' => Some('}'),
        '\'' => Some('\''),
        '|' => Some('|'),
        '“' => Some('”'),
        '‘' => Some('’'),
        '«' => Some('»'),
        '（' => Some('）'),
        '「' => Some('」'),
        _ => None,
    });
    let mut open = 0_usize;
    for (position, c) in text[start..].char_indices() {
        if is_long(position) || is_hard_end(c) || c.is_control() {
            return start + position;
        }
        match c {
            '(' if closing == Some(')') => open += 1,
            ')' if closing == Some(')') && open > 0 => open -= 1,
            c if closing == Some(c) => return start + position,
            _ => {}
        }
    }
    text.len()
}

/// Where a URL ends for readers that know no closing quotes and parentheses, if it ends here for others. Not further than a
/// user name is long.
fn wide_end(text: &str, from: usize) -> usize {
    let ends = |&(position, c): &(usize, char)| MAX_USER < position || is_hard_end(c);
    text[from..].char_indices().find(ends).map_or(text.len(), |(position, _)| from + position)
}

/// Longer than any URL that is compared: its end does not matter.
fn is_long(length: usize) -> bool {
    length > MAX_URL + MAX_TRIMMED * 4
}

/// Where every reader ends a URL.
fn is_hard_end(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`')
}

/// A URL without the punctuation of the sentence that it ends. A closing parenthesis belongs to a URL that opens it.
fn without_punctuation(url: &str) -> &str {
    let mut rest = url;
    for _ in 0..MAX_TRIMMED {
        let Some(last) = rest.chars().next_back().filter(|last| PUNCTUATION.contains(last)) else { break };
        let count = |wanted: char| rest.chars().filter(|c| *c == wanted).count();
        let is_closed = match last {
            ')' => count('(') >= count(')'),
            ']' => count('[') >= count(']'),
            '}' => count('{') >= count('}'),
            _ => false,
        };
        if is_closed {
            break;
        }
        rest = &rest[..rest.len() - last.len_utf8()];
    }
    rest
}
