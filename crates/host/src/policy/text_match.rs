//! Whether a text matches a pattern, as it is written and as a server may read it.
//!
//! `/tmp/../etc/passwd` matches `/tmp/*` as a text, and names a file in `/etc`. So a pattern is compared with what a text
//! means: the canonical host and path of a URL (`address.rs`), the words of a command (`command.rs`), a path without `.`,
//! `..` and doubled slashes (here and in `resolved.rs`). Where readings differ, or the text is not what the pattern is
//! about, the result is [`Fit::Unclear`].

mod address;
mod command;
mod resolved;

use toolway_config::Pattern;

use address::AddressPattern;
use resolved::{Address, Dots, decoded, path, plain};

use super::fit::Fit;

/// Compares a pattern, or a value of a list, with a text.
type IsMatch = fn(&str, &str) -> bool;

/// Why a path or an address is unclear.
const UNCLEAR: &str = "is a path or an address that can be read in several ways";

/// Compares a text with a pattern with `*`.
pub(super) fn matches(pattern: &str, text: &str) -> Fit {
    if pattern == "*" {
        return Fit::Match;
    }
    let is_match: IsMatch = |pattern, text| Pattern::from(pattern).matches(text);
    let fit = compare(pattern, text, is_match);
    command::compare(pattern, text, is_match).map_or(fit, |of_command| fit.agreed(of_command))
}

/// Compares a text with the wanted one.
pub(super) fn equals(wanted: &str, text: &str) -> Fit {
    if wanted == text { Fit::Match } else { compare(wanted, text, |wanted, text| wanted == text) }
}

fn compare(wanted: &str, text: &str, is_match: IsMatch) -> Fit {
    if let Some(pattern) = AddressPattern::parse(wanted) {
        return pattern.compare(text, is_match);
    }
    let has_slash = wanted.contains(['/', '\\']);
    let mut fit = compare_as_it_is(wanted, text, is_match);
    // Readers of addresses ignore line breaks, and many trim what surrounds a path.
    let trimmed = text.trim_matches(|letter: char| letter.is_whitespace() || letter.is_control());
    let trimmed = trimmed.replace(['\t', '\r', '\n'], "");
    if trimmed != text && (has_slash || Address::parse(&trimmed).is_some()) {
        fit = fit.agreed(compare_as_it_is(wanted, &trimmed, is_match));
    }
    // C reads a path up to the first zero.
    if has_slash && text.contains('\0') {
        fit = Fit::Unclear(UNCLEAR);
    }
    let names_host = || !has_slash && address::names_host(wanted, &trimmed, is_match);
    if fit == Fit::Mismatch && (names_host() || may_name(wanted, text, is_match)) {
        fit = Fit::Unclear(UNCLEAR);
    }
    fit
}

/// Whether a path that does not match as it is written can be read as one that does: `/home/ada/.env/.` for `*.env`,
/// `../../etc/passwd` for `/etc/*`.
fn may_name(wanted: &str, text: &str, is_match: IsMatch) -> bool {
    let before_zero = text.split('\0').next().unwrap_or_default();
    let trimmed = before_zero.trim_matches(|letter: char| letter.is_whitespace() || letter.is_control());
    if trimmed.len() == text.len() && !text.contains(['/', '\\', '%']) {
        return false;
    }
    let file = Address::parse(trimmed).and_then(|address| address.file());
    // Another address than of a file is not a path.
    if file.is_none() && Address::parse(trimmed).is_some_and(|address| address.is_well_known) {
        return false;
    }
    let decoded = decoded(trimmed);
    let readings = [Some(trimmed.to_owned()), file, text.contains('%').then_some(decoded)];
    let mut paths = readings.into_iter().flatten().map(|reading| path(&reading, Dots::Resolve));
    let wanted_path = path(wanted, Dots::Resolve);
    paths.any(|path| either(is_match, &wanted_path, &path) || may_climb_to(&wanted_path, &path, is_match))
}

/// Whether a path that leaves the current directory upwards may lead to what a pattern about absolute paths matches.
fn may_climb_to(wanted: &str, path: &str, is_match: IsMatch) -> bool {
    let below = path.trim_start_matches("../");
    if !wanted.starts_with('/') || below.len() == path.len() {
        return false;
    }
    let ends = wanted.match_indices('/').map(|(at, _)| &wanted[at + 1..]);
    // A directory above may be any, so the end of the pattern has to name one.
    ends.filter(|end| end.contains(|letter| letter != '*' && letter != '/')).any(|end| either(is_match, end, below))
}

fn compare_as_it_is(wanted: &str, text: &str, is_match: IsMatch) -> Fit {
    // A pattern about `..` is about the text.
    let dots = if wanted.contains("..") { Dots::Keep } else { Dots::Resolve };
    let has_slash = wanted.contains(['/', '\\']);
    let address = Address::parse(text);
    let is_path = has_slash && dots == Dots::Resolve;
    if address.is_none() && !is_path {
        return Fit::of(is_match(wanted, text));
    }
    let mut results = vec![either(is_match, wanted, text)];
    if !wanted.contains('%') && text.contains('%') {
        let decoded = decoded(text);
        results.push(either(is_match, wanted, &decoded));
        if is_path && address.is_none() {
            results.push(either(is_match, &path(wanted, dots), &path(&decoded, dots)));
        }
    }
    match address {
        None => results.push(either(is_match, &path(wanted, dots), &path(text, dots))),
        Some(address) if has_slash => {
            results.push(either(is_match, &plain(wanted, dots), &address.resolved(dots)));
            if !address.is_well_known {
                // A server may take it for a path.
                results.push(either(is_match, &path(wanted, dots), &path(text, dots)));
            }
            if let Some(file) = address.file().filter(|_| wanted.starts_with('/')) {
                results.push(either(is_match, &path(wanted, dots), &path(&file, dots)));
            }
        }
        Some(address) => {
            // It may be about the host, which is in lower case now.
            let (lower, resolved) = (wanted.to_lowercase(), address.resolved(dots));
            results.push(
                either(is_match, wanted, &resolved)
                    || is_match(&lower, &address.origin)
                    || (results.first() == Some(&true) && either(is_match, &lower, &resolved)),
            );
        }
    }
    Fit::of_readings(results.into_iter(), UNCLEAR)
}

/// A directory is the same with and without a slash at its end.
fn either(is_match: IsMatch, wanted: &str, text: &str) -> bool {
    is_match(wanted, text) || is_match(wanted, text.trim_end_matches('/'))
}

#[cfg(test)]
mod tests;
