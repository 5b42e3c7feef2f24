//! The operator log: which `tracing` events are written, in which format and where. Only events of Toolway's own crates are
//! written, because those of libraries may contain secrets.
//!
//! `serve` writes through the queue of the access log, so that both share one file and a slow reader delays no call. Errors
//! are counted for the metrics at every log level. [`line`] formats an event.

mod line;

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use clap::ValueEnum;
use parking_lot::Mutex;
use toolway_config::Environment;
use toolway_gateway::records::{AccessLog, LogFormat, LoggedErrors, Records};
use tracing::{Event, Level, Metadata, Subscriber, level_filters::LevelFilter, span};
use tracing_subscriber::{
    Layer, Registry,
    filter::{Targets, filter_fn},
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

use self::line::Fields;
use crate::{exit_code::ExitCode, report::Report};

/// Options of the operator log.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogArgs {
    /// Log from this level on (`off`, `error`, `warn`, `info`, `debug`, `trace`), or `MODULE=LEVEL` for a part, as in
    /// `warn,wire=debug` [env: TOOLWAY_LOG] [default: warn for `serve`, else error]
    #[arg(long, global = true, value_name = "LEVEL", value_parser = levels)]
    pub(crate) log_level: Option<Levels>,

    /// Format of the log [default: text]
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormatArg>,

    /// Append the log to this file instead of standard error; a new file is readable by you only
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
}

/// Format of the operator log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// Readable text
    Text,
    /// One object per line
    Json,
}

/// The levels of `--log-level`: one for everything else, and those of single modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Levels {
    general: Option<LevelFilter>,
    /// Module without the prefix `toolway_`.
    modules: Vec<(String, LevelFilter)>,
}

/// The access log of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessLogChoice {
    /// The command has none.
    None,
    /// Not written.
    Off,
    /// Written in this format; `None`: in the format of the operator log.
    Written(Option<LogFormat>),
}

/// The installed log of this process.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    queue: Option<Arc<AccessLog>>,
    access: AccessLogChoice,
    errors: Arc<LoggedErrors>,
}

/// Environment variable with the same value as `--log-level`.
const LEVEL_VARIABLE: &str = "TOOLWAY_LOG";
/// Prefix of the targets of our own crates.
const OURS: &str = "toolway";

// === impl Log ===

impl Log {
    /// Installs the log of this process.
    pub(crate) fn install(
        args: &LogArgs,
        access: AccessLogChoice,
        environment: &Environment,
    ) -> Result<Self, Box<Report>> {
        let (given, is_gateway) = (levels_of(args, environment)?, access != AccessLogChoice::None);
        let format = args.log_format.map(LogFormat::from);
        let access_format = match access {
            AccessLogChoice::Written(format) => format,
            AccessLogChoice::None | AccessLogChoice::Off => None,
        };
        let sink: Box<dyn Write + Send> = match &args.log_file {
            Some(path) => Box::new(open(path)?),
            None => Box::new(std::io::stderr()),
        };
        let (queue, sink) = if is_gateway {
            let either = access_format.or(format).unwrap_or(LogFormat::Text);
            let queue = AccessLog::to(sink, either).map_err(|error| failed(&error))?;
            let queue = Arc::new(queue);
            (Some(Arc::clone(&queue)), Sink::Queue(queue))
        } else {
            (None, Sink::Direct(Mutex::new(sink)))
        };
        let format = format.or(access_format).unwrap_or(LogFormat::Text);
        let errors = Arc::<LoggedErrors>::default();
        let default = if is_gateway { LevelFilter::WARN } else { LevelFilter::ERROR };
        let written = LineLayer { format, sink }.with_filter(given.targets(default));
        let counted = ErrorLayer { errors: Arc::clone(&errors) }.with_filter(filter_fn(is_error));
        tracing::subscriber::set_global_default(Registry::default().with(written).with(counted))
            .map_err(|error| failed(&error))?;
        Ok(Self { queue, access, errors })
    }

    /// Metrics and access log of a gateway.
    pub(crate) fn records(&self) -> Records {
        let records = match (&self.queue, self.access) {
            (Some(queue), AccessLogChoice::Written(_)) => Records::with_log(Arc::clone(queue)),
            _ => Records::default(),
        };
        records.with_errors(Arc::clone(&self.errors))
    }

    /// Writes queued lines; nothing is written after the process ends.
    pub(crate) fn flush(&self) {
        if let Some(queue) = &self.queue {
            queue.flush();
        }
    }
}

fn levels_of(args: &LogArgs, environment: &Environment) -> Result<Levels, Box<Report>> {
    if let Some(given) = &args.log_level {
        return Ok(given.clone());
    }
    let Some(text) = environment.get(OsStr::new(LEVEL_VARIABLE)).filter(|text| !text.is_empty()) else {
        return Ok(Levels::default());
    };
    let text = text.to_string_lossy();
    levels(&text).map_err(|error| Box::new(Report::usage("usage", format!("`{LEVEL_VARIABLE}={text}`: {error}"))))
}

/// Opens a log file for appending.
fn open(path: &Path) -> Result<File, Box<Report>> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| {
        let path = path.display();
        Box::new(Report::usage("usage", format!("cannot open the log file `{path}`: {error}")))
    })
}

fn failed(error: &dyn std::fmt::Display) -> Box<Report> {
    Box::new(Report::new(ExitCode::Internal, "internal", format!("cannot start the log: {error}")))
}

// === impl Levels ===

impl Levels {
    fn targets(&self, default: LevelFilter) -> Targets {
        let general = Targets::new().with_target(OURS, self.general.unwrap_or(default));
        self.modules
            .iter()
            .fold(general, |targets, (module, level)| targets.with_target(format!("{OURS}_{module}"), *level))
    }
}

/// Parses `--log-level`.
fn levels(text: &str) -> Result<Levels, String> {
    let level =
        |text: &str| {
            // Numbers and an empty text would be levels as well.
            let is_word = text.trim().starts_with(|letter: char| letter.is_ascii_alphabetic());
            text.trim().parse().ok().filter(|_| is_word).ok_or_else(|| {
                format!("unknown level `{text}`: use `off`, `error`, `warn`, `info`, `debug` or `trace`")
            })
        };
    let mut levels = Levels::default();
    for part in text.split(',') {
        match part.split_once('=') {
            None => levels.general = Some(level(part)?),
            Some((module, text)) => {
                let module = module.trim();
                let module = module.strip_prefix("toolway_").unwrap_or(module);
                levels.modules.push((module.to_owned(), level(text)?));
            }
        }
    }
    Ok(levels)
}

// === impl LogFormatArg ===

impl From<LogFormatArg> for LogFormat {
    fn from(format: LogFormatArg) -> Self {
        match format {
            LogFormatArg::Text => Self::Text,
            LogFormatArg::Json => Self::Json,
        }
    }
}

/// Where lines are written.
enum Sink {
    /// At once. Nothing awaits under this lock.
    Direct(Mutex<Box<dyn Write + Send>>),
    /// By the writer thread of the access log.
    Queue(Arc<AccessLog>),
}

impl Sink {
    fn write(&self, line: String) {
        match self {
            Self::Direct(sink) => {
                let mut sink = sink.lock();
                // Standard error may be closed.
                let _gone = sink.write_all(line.as_bytes()).and_then(|()| sink.flush());
            }
            Self::Queue(queue) => queue.write_line(line),
        }
    }
}

/// Writes a line for each event, with the fields of the spans around it.
struct LineLayer {
    format: LogFormat,
    sink: Sink,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LineLayer {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.inherit(outer);
            }
        }
        self.sink.write(line::format(self.format, SystemTime::now(), event.metadata(), &fields));
    }
}

/// Counts errors, whether they are written or not.
struct ErrorLayer {
    errors: Arc<LoggedErrors>,
}

impl<S: Subscriber> Layer<S> for ErrorLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        self.errors.record(line::level_word(*metadata.level()), line::module(metadata));
    }
}

/// Whether an event reports an error or a warning: by its level, or because it has a field `error`.
fn is_error(metadata: &Metadata<'_>) -> bool {
    metadata.is_event()
        && metadata.target().starts_with(OURS)
        && (*metadata.level() <= Level::WARN || metadata.fields().field("error").is_some())
}

#[cfg(test)]
mod tests {
    use std::{io::Write, sync::Arc};

    use parking_lot::Mutex;
    use toolway_gateway::records::LogFormat;
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::{Layer, Registry, layer::SubscriberExt};

    use super::{LineLayer, Sink, levels};

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is written at these levels, without the time.
    fn written(format: LogFormat, given: &str, act: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let sink = Sink::Direct(Mutex::new(Box::new(buffer.clone())));
        let layer = LineLayer { format, sink }.with_filter(levels(given).unwrap().targets(LevelFilter::WARN));
        tracing::subscriber::with_default(Registry::default().with(layer), act);
        let text = String::from_utf8(buffer.0.lock().clone()).unwrap();
        text.lines().map(|line| format!("{}\n", line.split_once(' ').unwrap_or(("", line)).1)).collect()
    }

    #[test]
    fn line_has_the_fields_of_its_event_and_of_the_spans_around_it() {
        let text = written(LogFormat::Text, "warn", || {
            let _span = tracing::error_span!("server", server = "files", attempt = 2).entered();
            tracing::warn!(error = "line 1\nline 2 \u{1b}[2J", "cannot connect");
            tracing::info!("not shown");
        });
        assert_eq!(text, "WARN cannot connect error=\"line 1\\nline 2 \\u{1b}[2J\" server=files attempt=2\n");
    }

    #[test]
    fn module_levels_add_to_the_general_level() {
        let act = || {
            tracing::debug!(target: "toolway_wire::up", "from wire");
            tracing::debug!(target: "toolway_host", "from host");
            tracing::error!(target: "hyper", "from a library");
        };
        assert_eq!(written(LogFormat::Text, "warn,wire=debug", act), "DEBUG from wire\n");
        assert_eq!(written(LogFormat::Text, "off", act), "");
        assert_eq!(written(LogFormat::Text, "debug,toolway_wire=off", act), "DEBUG from host\n");
    }

    #[test]
    fn unknown_level_is_refused() {
        for wrong in ["loud", "wire=loud", "", "3", "warn,"] {
            assert!(levels(wrong).unwrap_err().starts_with("unknown level `"), "{wrong}");
        }
    }
}
