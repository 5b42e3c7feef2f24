//! Counts of instructions by callgrind: starts a program under it, takes counts while it runs, and reads them.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use tokio::process::Command;

/// A folder for the counts of one process.
pub(crate) struct Callgrind {
    folder: tempfile::TempDir,
    /// Where the files are kept, for `callgrind_annotate`.
    kept: Option<PathBuf>,
}

/// Instructions by thread and part of the program.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    parts: BTreeMap<Place, f64>,
    /// Of modules of ours, each of which is a source file.
    modules: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    thread: &'static str,
    part: String,
}

/// Instructions of one part of the program.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) instructions: f64,
}

impl Callgrind {
    /// `kept`: a folder for the files that callgrind writes, by this name.
    pub(crate) fn new(kept: Option<&Path>, name: &str) -> io::Result<Self> {
        let kept = kept.map(|folder| folder.join(name));
        kept.iter().try_for_each(fs::create_dir_all)?;
        Ok(Self { folder: tempfile::tempdir()?, kept })
    }

    /// A command that runs a program under callgrind. Child processes run as usual.
    #[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
    pub(crate) fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new("valgrind");
        let mut file = self.folder.path().join("out").into_os_string();
        file = [OsStr::new("--callgrind-out-file="), &file].into_iter().collect();
        command.args(["--tool=callgrind", "--quiet", "--separate-threads=yes", "--fair-sched=yes"]);
        command.arg(file).arg(program);
        command
    }

    /// Takes the counts since the last time.
    #[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
    pub(crate) async fn take(&self, process: u32) -> io::Result<Costs> {
        let dumped = Command::new("vgdb").arg(format!("--pid={process}")).arg("dump").output().await?;
        if !dumped.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&dumped.stderr).into_owned()));
        }
        let mut costs = Costs::default();
        for file in fs::read_dir(self.folder.path())? {
            let path = file?.path();
            costs.read(&fs::read_to_string(&path)?);
            if let (Some(kept), Some(name)) = (&self.kept, path.file_name()) {
                fs::copy(&path, kept.join(name))?;
            }
            fs::remove_file(path)?;
        }
        Ok(costs)
    }
}

impl Costs {
    pub(crate) fn total(&self) -> f64 {
        self.parts.values().sum()
    }

    /// What a longer round has more, for each of its additional calls.
    pub(crate) fn difference(&self, short: &Self, calls: f64) -> Self {
        let parts = difference(&self.parts, &short.parts, calls);
        Self { parts, modules: difference(&self.modules, &short.modules, calls) }
    }

    /// Source files of ours whose functions run in a call. Functions that the compiler has merged into others count there.
    pub(crate) fn source_files(&self) -> usize {
        self.modules.values().filter(|instructions| FEW_INSTRUCTIONS <= **instructions).count()
    }

    /// The parts of each thread, the largest first.
    pub(crate) fn by_thread(&self) -> BTreeMap<&'static str, Vec<Part>> {
        let mut threads: BTreeMap<&'static str, Vec<Part>> = BTreeMap::new();
        for (place, instructions) in &self.parts {
            let part = Part { name: place.part.clone(), instructions: *instructions };
            threads.entry(place.thread).or_default().push(part);
        }
        for parts in threads.values_mut() {
            parts.sort_by(|one, other| other.instructions.total_cmp(&one.instructions));
        }
        threads
    }

    /// Adds the counts of one thread, as callgrind writes them: the cost of a function stands in lines after its name. A
    /// line after `calls=` has what a callee took, which is counted there.
    fn read(&mut self, text: &str) {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let mut objects: BTreeMap<String, String> = BTreeMap::new();
        let mut function = String::new();
        let mut object = String::new();
        let mut is_of_callee = false;
        let mut costs: BTreeMap<String, f64> = BTreeMap::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                function = whole_name(&mut names, name);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                whole_name(&mut names, name);
            } else if let Some(name) = line.strip_prefix("ob=") {
                object = whole_name(&mut objects, name);
            } else if let Some(name) = line.strip_prefix("cob=") {
                whole_name(&mut objects, name);
            } else if line.starts_with("calls=") {
                is_of_callee = true;
            } else if line.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '*')) {
                let own = !std::mem::take(&mut is_of_callee);
                let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse::<f64>().ok());
                if let Some(cost) = cost.filter(|_| own) {
                    *costs.entry(part_of(&function, &object)).or_default() += cost;
                    if let Some(module) = module_of(&function) {
                        *self.modules.entry(module).or_default() += cost;
                    }
                }
            }
        }
        let is_writer = costs.get(SQLITE).is_some_and(|own| costs.values().all(|other| other <= own));
        let thread = if is_writer { "writer of the store" } else { "path of a call" };
        for (part, cost) in costs {
            *self.parts.entry(Place { thread, part }).or_default() += cost;
        }
    }
}

const SQLITE: &str = "SQLite";
/// Instructions of a module that runs in each call; fewer are of what happens now and then.
const FEW_INSTRUCTIONS: f64 = 5.0;

fn difference<K: Clone + Ord>(long: &BTreeMap<K, f64>, short: &BTreeMap<K, f64>, calls: f64) -> BTreeMap<K, f64> {
    let mut difference = long.clone();
    for (key, instructions) in short {
        *difference.entry(key.clone()).or_default() -= instructions;
    }
    difference.values_mut().for_each(|instructions| *instructions /= calls);
    difference
}

/// The module of a function of ours, or of a method of one of our types: the path up to the function or type.
fn module_of(function: &str) -> Option<String> {
    let name = function.trim_start_matches('<').strip_prefix("toolway_")?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | ':')).unwrap_or(name.len());
    let is_type = |segment: &str| segment.starts_with(|first: char| first.is_ascii_uppercase());
    let segments: Vec<&str> = name[..end].split("::").filter(|segment| !segment.is_empty()).collect();
    let has_type = segments.iter().any(|segment| is_type(segment)) || name[end..].starts_with("<impl");
    let mut path: Vec<&str> = segments.into_iter().take_while(|segment| !is_type(segment)).collect();
    if !has_type {
        path.pop();
    }
    Some(path.join("::"))
}

/// The name behind `(number)`, which is written out once.
fn whole_name(names: &mut BTreeMap<String, String>, text: &str) -> String {
    match text.split_once(' ') {
        Some((number, name)) => {
            names.insert(number.to_owned(), name.to_owned());
            name.to_owned()
        }
        None => names.get(text).cloned().unwrap_or_default(),
    }
}

/// The crate of a function, or the kind of its work.
fn part_of(function: &str, object: &str) -> String {
    const CRATE: &str = "toolway_";
    if let Some(start) = function.find(CRATE) {
        let rest = &function[start + CRATE.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        return rest[..end].to_owned();
    }
    if let Some((first, _)) = function.split_once("::") {
        let first = first.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        return match first {
            "core" | "alloc" | "std" | "hashbrown" => "Rust's library".to_owned(),
            other => other.split_whitespace().last().unwrap_or(other).to_owned(),
        };
    }
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| function.starts_with(prefix));
    if begins(&["mi_", "_mi_", "malloc", "free", "calloc", "realloc"]) {
        "allocator".to_owned()
    } else if object.contains("libc") || object.contains("ld-linux") || object.contains("libpthread") {
        "libc".to_owned()
    } else if begins(&["ring_core", "sha256", "SHA256", "aes", "chacha20", "ChaCha20", "poly1305", "gcm", "bn_"]) {
        "ring".to_owned()
    } else if begins(&["__rust", "rust_"]) {
        "Rust's library".to_owned()
    } else {
        SQLITE.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::module_of;

    #[test]
    fn functions_and_methods_belong_to_the_module_that_has_them() {
        for (function, module) in [
            ("toolway_host::call::pipeline::run_stages::{{closure}}", Some("host::call::pipeline")),
            ("toolway_wire::json::Raw::get", Some("wire::json")),
            ("toolway_host::call::<impl toolway_host::host::Host>::open", Some("host::call")),
            (
                "<toolway_store::recorder::StoreRecorder as toolway_host::record::CallRecorder>::end",
                Some("store::recorder"),
            ),
            ("core::ptr::drop_in_place<toolway_host::call::find::Found>", None),
        ] {
            assert_eq!(module_of(function).as_deref(), module, "{function}");
        }
    }
}
