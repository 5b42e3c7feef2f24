//! Whether a licence expression can be met with the licences on a list.
//!
//! The expressions are SPDX: names joined by `OR`, `AND` and `WITH`, with parentheses; older crates write `/` for `OR`.

/// True when some reading of `expression` needs only what `allowed` lists. What cannot be read is not met.
pub(super) fn is_met(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { left: spaced.split_whitespace().collect(), allowed };
    words.left.reverse();
    words.any().is_some_and(|met| met && words.left.is_empty())
}

/// The words of an expression that are still to be read, the next one last.
struct Words<'a> {
    left: Vec<&'a str>,
    allowed: &'a [String],
}

impl<'a> Words<'a> {
    fn any(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Some(met)
    }

    fn all(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let met = self.any()?;
            return self.take(")").then_some(met);
        }
        let mut name = self.name()?.to_owned();
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.name()?);
        }
        Some(self.allowed.contains(&name))
    }

    fn name(&mut self) -> Option<&'a str> {
        self.left.pop().filter(|word| !matches!(*word, "OR" | "AND" | "WITH" | "(" | ")"))
    }

    fn take(&mut self, word: &str) -> bool {
        let next = self.left.last() == Some(&word);
        if next {
            self.left.pop();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(expression: &str) -> bool {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];
        is_met(expression, &allowed.map(str::to_owned))
    }

    #[test]
    fn good_expressions_are_met() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0-only",
            "GPL-3.0-only OR MIT",
            "MIT/GPL-3.0",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "GPL-2.0 OR (MIT AND Apache-2.0)",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
            "GPL-2.0 AND MPL-2.0 OR MIT",
        ] {
            assert!(met(good), "{good}");
        }
    }

    #[test]
    fn bad_and_broken_expressions_are_not() {
        for bad in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0) AND OpenSSL",
            "MIT WITH GCC-exception",
            "MIT OR",
            "OR MIT",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "mit",
        ] {
            assert!(!met(bad), "{bad}");
        }
    }
}
