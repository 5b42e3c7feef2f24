//! What an answer of `toolway inbox answer` covers, as `--cover` says it. The gateway knows the values.

use std::collections::BTreeMap;

use toolway_gateway::control::Cover;

use crate::report::Report;

/// What is covered; `None` if nothing is changed about the proposal.
pub(super) fn chosen(covers: &[String]) -> Result<Option<Cover>, Report> {
    match covers {
        [] => return Ok(None),
        [any] if any == "*=any" => return Ok(Some(Cover::Any)),
        _ => {}
    }
    let mut words = BTreeMap::new();
    for cover in covers {
        let invalid = |what: &str| Report::usage("arguments", format!("`--cover {cover}`: {what}"));
        let (name, word) = cover.rsplit_once('=').ok_or_else(|| invalid("expected `ARGUMENT=WORD`"))?;
        if words.insert(name.to_owned(), word.to_owned()).is_some() {
            return Err(invalid("the argument is given twice"));
        }
    }
    Ok(Some(Cover::Arguments(words)))
}

#[cfg(test)]
mod tests {
    use toolway_gateway::control::Cover;

    use super::chosen;

    #[test]
    fn words_are_taken_by_argument() {
        let chosen = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            chosen(&words).map_err(|report| report.message)
        };
        let words = |words: &[(&str, &str)]| {
            Cover::Arguments(words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect())
        };
        assert_eq!(chosen(&[]), Ok(None));
        assert_eq!(chosen(&["*=any"]), Ok(Some(Cover::Any)));
        assert_eq!(chosen(&["a=b=any", "n=same"]), Ok(Some(words(&[("a=b", "any"), ("n", "same")]))));
        for (given, problem) in [(["n", "m=any"], "expected `ARGUMENT=WORD`"), (["n=any", "n=same"], "given twice")] {
            assert!(chosen(&given).unwrap_err().ends_with(problem), "{given:?}");
        }
    }
}
