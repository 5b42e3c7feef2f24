//! The answerer of a command: answers given on the command line, else the terminal or the inbox of a gateway, else none.

use std::{collections::BTreeMap, fmt};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use toolway_config::Environment;
use toolway_host::inbox::{Answerer, ElicitationAnswer, ElicitationModes, Form, InboxAnswer, InboxContent, InboxItem};

use super::TerminalAnswerer;
use crate::{gateway_inbox::GatewayInbox, output, report::Report};

/// Options of a command that answer forms of servers.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct AnswerArgs {
    /// Answer for a form of the server: `field=value`, or `@file` with a JSON object; can be repeated
    ///
    /// At a terminal, a form is shown if an answer is missing. Without a terminal, the form is cancelled then, and the
    /// command exits with 6.
    #[arg(long = "answer", value_name = "FIELD=VALUE", conflicts_with = "decline")]
    answers: Vec<String>,

    /// Decline every form and URL of the server
    #[arg(long)]
    decline: bool,

    /// Let forms and URLs of the server wait in the inbox of the running gateway, for `toolway inbox` and the console
    ///
    /// Approval requests are not left to it.
    #[arg(long, conflicts_with = "decline")]
    pub(crate) wait: bool,
}

/// Answers the items of a command.
pub(crate) struct CommandAnswerer {
    given: Given,
    terminal: Option<TerminalAnswerer>,
    /// Answers forms and URLs in place of the terminal.
    inbox: Option<GatewayInbox>,
    // Nothing awaits under this lock.
    unanswered: Mutex<Vec<String>>,
}

/// Answers on the command line.
#[derive(Debug)]
enum Given {
    Nothing,
    /// Servers are told that forms can be answered, and each form is cancelled: some tools are offered only to such clients.
    DeclaredOnly,
    Decline,
    Values(BTreeMap<String, GivenValue>),
}

/// One answer on the command line.
#[derive(Clone, Debug)]
enum GivenValue {
    /// Text, converted to the type of its field.
    Text(String),
    /// A value of a JSON file.
    Json(Value),
}

impl CommandAnswerer {
    /// The answerer of a command with these options.
    pub(crate) fn new(args: &AnswerArgs, environment: &Environment) -> Result<Self, Report> {
        let terminal = output::is_interactive().then(|| TerminalAnswerer::new(environment));
        Ok(Self { terminal, ..Self::unattended(args)? })
    }

    /// The answerer of a command that asks no user at its terminal.
    pub(crate) fn unattended(args: &AnswerArgs) -> Result<Self, Report> {
        let given = match args {
            AnswerArgs { decline: true, .. } => Given::Decline,
            AnswerArgs { answers, .. } if answers.is_empty() => Given::Nothing,
            AnswerArgs { answers, .. } => Given::Values(read(answers)?),
        };
        Ok(Self { given, terminal: None, inbox: None, unanswered: Mutex::default() })
    }

    /// Leaves the forms and URLs that the command line does not answer to this inbox.
    pub(crate) fn with_inbox(self, inbox: Option<GatewayInbox>) -> Self {
        Self { inbox, ..self }
    }

    /// Whether a terminal is there to ask.
    pub(crate) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// The answerer of a command that only lists: the lists are the same with and without a terminal.
    pub(crate) fn for_lists() -> Self {
        Self { given: Given::DeclaredOnly, terminal: None, inbox: None, unanswered: Mutex::default() }
    }

    /// Whether a prompt is on the screen.
    pub(crate) fn is_prompting(&self) -> bool {
        self.terminal.as_ref().is_some_and(TerminalAnswerer::is_prompting)
    }

    /// Whether forms and URLs of servers can be answered, so that servers are told so.
    pub(crate) fn is_available(&self) -> bool {
        self.unanswered.lock().is_empty() && self.modes() != ElicitationModes::Nothing
    }

    /// Why forms and URLs were cancelled without a user.
    pub(crate) fn unanswered(&self) -> Vec<String> {
        self.unanswered.lock().clone()
    }

    async fn answer_form(&self, item: &InboxItem, message: &str, form: &Form) -> InboxAnswer {
        let problem = match &self.given {
            Given::Decline => return InboxAnswer::Elicitation(ElicitationAnswer::Decline),
            Given::Values(values) => match content(values, form) {
                Ok(content) => return InboxAnswer::Elicitation(ElicitationAnswer::Accept(content)),
                Err(problem) => problem,
            },
            Given::Nothing | Given::DeclaredOnly => fields(form),
        };
        match (&self.inbox, &self.terminal) {
            (Some(inbox), _) => self.answer_in(inbox, item).await,
            (None, Some(terminal)) => terminal.answer(item).await,
            (None, None) => self.cancel(format!("`{}` asks: {message}; {problem}", item.server)),
        }
    }

    async fn answer_in(&self, inbox: &GatewayInbox, item: &InboxItem) -> InboxAnswer {
        match inbox.answer(item).await {
            Ok(answer) => answer,
            Err(problem) => self.cancel(format!("`{}` asks, and {problem}", item.server)),
        }
    }

    fn cancel(&self, why: String) -> InboxAnswer {
        self.unanswered.lock().push(why);
        InboxAnswer::Elicitation(ElicitationAnswer::Cancel)
    }
}

impl fmt::Debug for CommandAnswerer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandAnswerer").field("modes", &self.modes()).finish_non_exhaustive()
    }
}

impl Answerer for CommandAnswerer {
    fn modes(&self) -> ElicitationModes {
        match (&self.given, &self.terminal, &self.inbox) {
            // A server that knows that no user is there can do without one.
            (Given::Nothing, None, None) => ElicitationModes::Nothing,
            _ => ElicitationModes::FormsAndUrls,
        }
    }

    fn answer<'a>(&'a self, item: &'a InboxItem) -> BoxFuture<'a, InboxAnswer> {
        Box::pin(async move {
            match (&item.content, &self.inbox, &self.terminal) {
                (InboxContent::Form { message, form }, ..) => self.answer_form(item, message, form).await,
                (InboxContent::Url { .. }, ..) if matches!(self.given, Given::Decline) => {
                    InboxAnswer::Elicitation(ElicitationAnswer::Decline)
                }
                (InboxContent::Url { .. }, Some(inbox), _) => self.answer_in(inbox, item).await,
                (_, _, Some(terminal)) => terminal.answer(item).await,
                (InboxContent::Url { url, .. }, None, None) => {
                    self.cancel(format!("`{}` asks to open {url}, which needs a user", item.server))
                }
                // An approval counts only at the process that holds the call.
                (InboxContent::Approval(_) | InboxContent::Sampling(_), _, None) => InboxAnswer::Unavailable,
            }
        })
    }
}

/// Values by field.
type Fields = Map<String, Value>;

/// Answers of a command line: texts to be converted, and JSON values, by field.
pub(crate) fn texts_and_values(answers: &[String]) -> Result<(Fields, Fields), Report> {
    let (mut texts, mut values) = (Map::new(), Map::new());
    for (name, given) in read(answers)? {
        match given {
            GivenValue::Text(text) => drop(texts.insert(name, Value::String(text))),
            GivenValue::Json(value) => drop(values.insert(name, value)),
        }
    }
    Ok((texts, values))
}

/// Reads the answers of a command line.
fn read(answers: &[String]) -> Result<BTreeMap<String, GivenValue>, Report> {
    let mut values = BTreeMap::new();
    for answer in answers {
        match answer.strip_prefix('@') {
            Some(file) => {
                values.extend(read_file(file)?.into_iter().map(|(name, value)| (name, GivenValue::Json(value))))
            }
            None => {
                let (name, text) = answer.split_once('=').ok_or_else(|| {
                    Report::usage(
                        "arguments",
                        format!("invalid `--answer {answer}`: `field=value` or `@file` is expected"),
                    )
                })?;
                values.insert(name.to_owned(), GivenValue::Text(text.to_owned()));
            }
        }
    }
    Ok(values)
}

fn read_file(file: &str) -> Result<Map<String, Value>, Report> {
    let wrong = |problem: String| Report::usage("arguments", format!("cannot read the answers in `{file}`: {problem}"));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

/// The given answers as the content of a form. Defaults of the form stand for what is not given.
fn content(values: &BTreeMap<String, GivenValue>, form: &Form) -> Result<Map<String, Value>, String> {
    let (mut content, mut problems) = (Map::new(), Vec::new());
    for field in &form.fields {
        let value = match values.get(&field.name) {
            Some(GivenValue::Text(text)) => field.parse(text).map(Some),
            Some(GivenValue::Json(value)) => field.check(value).map(|()| Some(value.clone())),
            None if field.default.is_some() => Ok(field.default.clone()),
            None if field.required => Err("a value is required".to_owned()),
            None => Ok(None),
        };
        match value {
            Ok(Some(value)) => drop(content.insert(field.name.clone(), value)),
            Ok(None) => {}
            Err(problem) => problems.push(format!("`{}`: {problem}", field.name)),
        }
    }
    let is_known = |name: &&String| form.fields.iter().any(|field| field.name == **name);
    problems.extend(
        values.keys().filter(|name| !is_known(name)).map(|name| format!("`{name}`: the form has no such field")),
    );
    if problems.is_empty() { Ok(content) } else { Err(problems.join("; ")) }
}

/// The fields of a form, for a script that does not answer it.
fn fields(form: &Form) -> String {
    let names: Vec<String> = form.fields.iter().map(|field| format!("`{}`", field.name)).collect();
    format!("its fields are {}", names.join(", "))
}
