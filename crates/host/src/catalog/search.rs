//! Full-text search of tools and resources: BM25 over name, title and description, and the parameter names of a tool or the
//! URI of a resource.
//!
//! An index belongs to one snapshot and is built on the first search, or earlier by [`Catalog::prepare_search`]. Equal
//! scores are ordered as in the catalog, so results are deterministic. `words` splits text into words.

mod words;

use std::{
    collections::{BTreeSet, HashMap},
    sync::OnceLock,
};

use parking_lot::Mutex;
use toolway_wire::{
    budget::{Charge, Kept, MemoryBudget},
    json::Raw,
};

use super::{Catalog, ResourceEntry, ToolEntry};

/// A search result.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'a, E = ToolEntry> {
    /// The tool or resource found.
    pub entry: &'a E,
    /// Relevance; comparable only within one search.
    pub score: f64,
}

/// An item with texts that a search looks at.
pub(super) trait Searchable {
    /// Calls `add` with each text and its weight.
    fn texts(&self, add: impl FnMut(&str, f32));
}

/// An index of a catalog, built on first use. One that does not fit the byte budget is built for each search, one at a
/// time.
#[derive(Debug, Default)]
pub(super) struct KeptIndex {
    memory: MemoryBudget,
    built: OnceLock<Option<ChargedIndex>>,
    // Nothing awaits under this lock.
    building: Mutex<()>,
}

#[derive(Debug)]
struct ChargedIndex {
    index: Index,
    _charge: Charge,
}

/// Inverted index.
#[derive(Debug, Default)]
struct Index {
    words: HashMap<Box<str>, u32>,
    /// Postings by word number, in order of the items.
    postings: Vec<Vec<Posting>>,
    /// Weighted number of words of each item, relative to the average.
    lengths: Vec<f64>,
}

/// Occurrences of a word in one item.
#[derive(Clone, Copy, Debug)]
struct Posting {
    item: u32,
    weight: f32,
}

/// Weights of the fields.
const NAME: f32 = 4.0;
const TITLE: f32 = 2.0;
const DESCRIPTION: f32 = 1.0;
const PARAMETER: f32 = 1.0;
const ADDRESS: f32 = 2.0;
/// BM25 parameters `k1` and `b`, with the usual values.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;
/// Maximum number of parameters of one tool that are indexed.
const PARAMETERS: usize = 200;
/// Bytes of a word besides its text: its places in the index, and allocations.
const WORD_COST: usize = 96;
/// Maximum number of words of a query.
const MAX_QUERY_WORDS: usize = 64;

impl Catalog {
    /// Returns the best matches, at most `most`.
    pub fn search(&self, words: &str, most: usize) -> Vec<Hit<'_>> {
        self.search_among(words, most, |_| true)
    }

    /// Like [`Catalog::search`], limited to tools that are visible to the caller.
    pub fn search_among(&self, words: &str, most: usize, sees: impl Fn(&ToolEntry) -> bool) -> Vec<Hit<'_>> {
        best(&self.index, self.tools.all(), words, sees).into_iter().take(most).collect()
    }

    /// The resources that match, the best first, limited to those that are visible to the caller.
    pub fn search_resources(&self, words: &str, sees: impl Fn(&ResourceEntry) -> bool) -> Vec<Hit<'_, ResourceEntry>> {
        best(&self.resource_index, self.resources.all(), words, sees)
    }

    /// Builds the index now, if it was not built yet.
    pub fn prepare_search(&self) {
        self.index.kept(self.tools.all());
    }
}

/// The items that match, the best first.
fn best<'a, E: Searchable>(
    index: &KeptIndex,
    items: &'a [E],
    words: &str,
    sees: impl Fn(&E) -> bool,
) -> Vec<Hit<'a, E>> {
    let scores = index.with(items, |index| index.scores(words));
    let mut hits: Vec<_> = scores
        .into_iter()
        .enumerate()
        .filter(|(_, score)| 0.0 < *score)
        .map(|(position, score)| (position, Hit { entry: &items[position], score }))
        .filter(|(_, hit)| sees(hit.entry))
        .collect();
    hits.sort_by(|(here, one), (there, other)| other.score.total_cmp(&one.score).then(here.cmp(there)));
    hits.into_iter().map(|(_, hit)| hit).collect()
}

// === impl Searchable ===

impl Searchable for ToolEntry {
    fn texts(&self, mut add: impl FnMut(&str, f32)) {
        add(self.origin.server.as_str(), TITLE);
        add(&self.item.name, NAME);
        add(self.item.title.as_deref().unwrap_or_default(), TITLE);
        add(self.item.description.as_deref().unwrap_or_default(), DESCRIPTION);
        let properties = self.item.input_schema.get("properties");
        let parameters = properties.as_ref().map(Raw::members).unwrap_or_default();
        parameters.iter().take(PARAMETERS).for_each(|parameter| add(&parameter.key, PARAMETER));
    }
}

impl Searchable for ResourceEntry {
    fn texts(&self, mut add: impl FnMut(&str, f32)) {
        add(self.origin.server.as_str(), TITLE);
        add(&self.item.name, NAME);
        add(self.item.title.as_deref().unwrap_or_default(), TITLE);
        add(&self.item.uri, ADDRESS);
        add(self.item.description.as_deref().unwrap_or_default(), DESCRIPTION);
    }
}

// === impl KeptIndex ===

impl KeptIndex {
    pub(super) fn new(memory: &MemoryBudget) -> Self {
        Self { memory: memory.keeping(Kept::SearchIndex), ..Self::default() }
    }

    /// Builds and charges the index, if that was not done yet; `None` if it does not fit the byte budget.
    fn kept(&self, items: &[impl Searchable]) -> Option<&Index> {
        let build = || {
            let index = Index::of(items);
            let charge = self.memory.charge(index.bytes()).ok()?;
            Some(ChargedIndex { index, _charge: charge })
        };
        self.built.get_or_init(build).as_ref().map(|kept| &kept.index)
    }

    fn with<T>(&self, items: &[impl Searchable], read: impl FnOnce(&Index) -> T) -> T {
        if let Some(index) = self.kept(items) {
            return read(index);
        }
        let _turn = self.building.lock();
        read(&Index::of(items))
    }
}

// === impl Index ===

impl Index {
    fn of(items: &[impl Searchable]) -> Self {
        let mut index = Self::default();
        for (item, entry) in (0..).zip(items) {
            index.add(item, entry);
        }
        let average = index.lengths.iter().sum::<f64>() / items.len().max(1) as f64;
        index.lengths.iter_mut().for_each(|length| *length /= average.max(1.0));
        index
    }

    /// Bytes that it keeps.
    fn bytes(&self) -> usize {
        let words: usize = self.words.keys().map(|word| word.len() + WORD_COST).sum();
        let postings: usize = self.postings.iter().map(|postings| size_of_val(&**postings)).sum();
        words + postings + size_of_val(&*self.lengths)
    }

    fn add(&mut self, item: u32, entry: &impl Searchable) {
        let mut weights = self.weigh(entry);
        self.lengths.push(weights.iter().map(|(_, weight)| f64::from(*weight)).sum());
        weights.sort_unstable_by_key(|(word, _)| *word);
        for same in weights.chunk_by(|one, other| one.0 == other.0) {
            let weight = same.iter().map(|(_, weight)| weight).sum();
            self.postings[same[0].0 as usize].push(Posting { item, weight });
        }
    }

    /// Returns each occurrence of a word in an item: the word's number and the weight of its field.
    fn weigh(&mut self, entry: &impl Searchable) -> Vec<(u32, f32)> {
        let mut weights = Vec::new();
        entry.texts(|text, weight| words::each(text, |word| weights.push((self.number(word), weight))));
        weights
    }

    fn number(&mut self, word: &str) -> u32 {
        if let Some(number) = self.words.get(word) {
            return *number;
        }
        let number = u32::try_from(self.postings.len()).unwrap_or(u32::MAX);
        self.words.insert(word.into(), number);
        self.postings.push(Vec::new());
        number
    }

    /// Returns the score of each item, by position.
    fn scores(&self, query: &str) -> Vec<f64> {
        let mut scores = vec![0.0; self.lengths.len()];
        let mut asked = BTreeSet::new();
        words::each(query, |word| {
            if asked.len() < MAX_QUERY_WORDS {
                asked.insert(word.to_owned());
            }
        });
        for number in asked.iter().filter_map(|word| self.words.get(word.as_str())) {
            let postings = &self.postings[*number as usize];
            let rarity = self.rarity(postings.len());
            for posting in postings {
                let item = posting.item as usize;
                let weight = f64::from(posting.weight);
                let damping = SATURATION * (1.0 - LENGTH + LENGTH * self.lengths[item]);
                scores[item] += rarity * weight * (SATURATION + 1.0) / (weight + damping);
            }
        }
        scores
    }

    /// Inverse document frequency of a word that occurs in `items` items.
    fn rarity(&self, items: usize) -> f64 {
        let (all, with) = (self.lengths.len() as f64, items as f64);
        (1.0 + (all - with + 0.5) / (with + 0.5)).ln()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::catalog::{Catalog, test_catalog::CatalogBuilder};

    fn found(catalog: &Catalog, words: &str) -> Vec<String> {
        catalog.search(words, 10).iter().map(|hit| hit.entry.public.to_string()).collect()
    }

    fn catalog() -> Catalog {
        let schema = |name: &str| json!({ "type": "object", "properties": { name: {} } });
        CatalogBuilder::default()
            .tools("files", &[
                json!({ "name": "read_file", "description": "Reads one file.", "inputSchema": schema("path") }),
                json!({ "name": "listDirectory", "description": "What is in a folder, files included." }),
                json!({ "name": "stat", "title": "File details", "description": "Size and times." }),
            ])
            .tools("mail", &[
                json!({ "name": "send-message", "description": "Sends.", "inputSchema": schema("recipientAddress") }),
                json!({ "name": "search", "description": "Finds messages, and files attached to messages." }),
            ])
            .merge()
    }

    #[test]
    fn match_in_name_ranks_above_match_in_description() {
        let found = found(&catalog(), "file");
        assert_eq!(found[0], "files__read_file", "{found:?}");
        assert!(found.contains(&"mail__search".to_owned()), "{found:?}");
        assert!(!found.contains(&"mail__send-message".to_owned()), "{found:?}");
    }

    #[test]
    fn words_are_found_in_all_spellings_of_compounds() {
        let catalog = catalog();
        for (words, first) in [
            ("directory", "files__listDirectory"),
            ("DIRECTORIES list", "files__listDirectory"),
            ("message sending", "mail__send-message"),
            ("address of the recipient", "mail__send-message"),
            ("path", "files__read_file"),
            ("details", "files__stat"),
            ("sendMessage", "mail__send-message"),
        ] {
            assert_eq!(found(&catalog, words).first().map(String::as_str), Some(first), "{words}");
        }
    }

    #[test]
    fn rare_words_and_short_texts_score_higher() {
        let described = |name: &str, text: &str| json!({ "name": name, "description": text });
        let long = format!("archive {}", "and so on with many other words ".repeat(20));
        let catalog = CatalogBuilder::default()
            .tools(
                "s",
                &[
                    described("one", &long),
                    described("two", "archive"),
                    described("three", "common"),
                    described("four", "common"),
                    described("five", "common rare"),
                ],
            )
            .merge();
        assert_eq!(found(&catalog, "archive"), ["s__two", "s__one"]);
        assert_eq!(found(&catalog, "common rare")[0], "s__five");
        let score = |words: &str| catalog.search(words, 1)[0].score;
        assert!(score("common") < score("rare"));
    }

    #[test]
    fn unknown_word_finds_no_tool() {
        assert!(found(&catalog(), "xylophone").is_empty());
        assert!(found(&catalog(), "").is_empty());
        assert!(found(&Catalog::empty(), "file").is_empty());
    }

    #[test]
    fn equal_scores_are_in_catalog_order() {
        let names: Vec<_> = (0..20).map(|number| format!("same_{}", (b'a' + number) as char)).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let catalog = CatalogBuilder::default().named("b", &names).named("a", &names).merge();
        let found: Vec<_> = catalog.search("same", 30).iter().map(|hit| hit.entry.public.to_string()).collect();
        let expected: Vec<_> = catalog.tools().iter().take(30).map(|entry| entry.public.to_string()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn tools_that_are_not_visible_are_not_found() {
        let catalog = catalog();
        let found = catalog.search_among("file", 10, |entry| entry.origin.server.as_str() == "mail");
        assert_eq!(found.iter().map(|hit| hit.entry.public.as_str()).collect::<Vec<_>>(), ["mail__search"]);
    }
}
