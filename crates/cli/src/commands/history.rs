//! `toolway history`: stored conversations.

mod replay;

use clap::Subcommand;
use serde_json::json;
use toolway_agent::{StoredAssistant, export};
use toolway_host::conversation::{FoundMessage, StoredConversation};
use toolway_wire::json::Raw;

use crate::{
    app::App,
    assistant,
    chat::stored,
    clock::Clock,
    exit_code::ExitCode,
    output::{Format, Listing, Output, clean},
    record_args::DEFAULT_LIMIT,
    record_id,
    report::Report,
};

/// List, show, search, export, replay and delete conversations
///
/// `chat`, `run` and the web console store every message before the next step, so that a conversation survives a crash.
/// `toolway chat --resume ID` continues one. Without a command, lists the last 100.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HistoryArgs {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
}

const EXAMPLES: &str = "\
Examples:
  toolway history list
  toolway history search invoice -o json
  toolway history export last > conversation.md
  toolway history replay last                         Are its requests the ones that were sent?
  toolway chat --resume last";

#[derive(Debug, Subcommand)]
enum HistoryCommand {
    /// List conversations, newest first
    List {
        /// At most this many conversations
        #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT)]
        limit: usize,
    },
    /// Show one conversation
    Show {
        /// Id of the conversation, the beginning or end of it, or `last`
        id: String,
    },
    /// Find conversations with a message that contains a text, in any case
    Search {
        /// The text
        text: String,
        /// At most this many conversations
        #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT)]
        limit: usize,
    },
    /// Print one conversation as markdown, or as JSON with the messages as they were stored
    Export {
        /// Id of the conversation, the beginning or end of it, or `last`
        id: String,
    },
    /// Rebuild the requests of one conversation, and compare them with what was sent
    ///
    /// Works offline, from what is stored: the messages with the model's answers and the results of calls, and the tools and
    /// instructions of that time. No server is started. Exits with 0 if every request is byte-identical, else with 1 after
    /// showing the first difference. Header fields, and with them keys, are not stored.
    Replay {
        /// Id of the conversation, the beginning or end of it, or `last`
        id: String,
    },
    /// Delete one conversation
    Delete {
        /// Id of the conversation, or the beginning or end of it
        id: String,
    },
}

/// Characters of a found message.
const FOUND: usize = 80;

pub(crate) async fn run(args: &HistoryArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        None => output.listing(&stored::list(app, DEFAULT_LIMIT).await?, &LISTING),
        Some(HistoryCommand::List { limit }) => output.listing(&stored::list(app, *limit).await?, &LISTING),
        Some(HistoryCommand::Show { id }) => show(app, id, output).await?,
        Some(HistoryCommand::Search { text, limit }) => search(app, text, *limit, output).await?,
        Some(HistoryCommand::Export { id }) => export(app, id, output).await?,
        Some(HistoryCommand::Replay { id }) => return replay::run(app, id, output).await,
        Some(HistoryCommand::Delete { id }) => delete(app, id, output).await?,
    }
    Ok(ExitCode::Ok)
}

const LISTING: Listing<'_, StoredConversation, 5> = Listing {
    empty: "no conversations stored",
    headings: ["UPDATED", "SURFACE", "MODEL", "TITLE", "ID"],
    row,
    id: |head| head.id.to_string(),
    view: export::head,
};

fn row(head: &StoredConversation, clock: Clock) -> [String; 5] {
    let updated = clock.brief(head.updated_at);
    [updated, head.surface.clone(), head.model.clone(), head.title.clone(), record_id::short(&head.id)]
}

async fn show(app: &App, id: &str, output: &mut Output) -> Result<(), Report> {
    let head = stored::find(app, id).await?;
    let messages = stored::messages(app, &head).await?;
    let assistant = assistant_of(app, &head).await?;
    if output.format != Format::Human {
        output.json(&export::json(&head, assistant.as_ref(), &messages));
        return Ok(());
    }
    output.print_wrapped("", &format!("{} ({}, model {}, {})", head.title, head.surface, head.model, head.id));
    if let Some(stored) = &assistant {
        output.line(&format!("assistant {}", clean::flat(&stored.name)));
        assistant::lines(&stored.values).iter().for_each(|line| output.print_wrapped("  ", line));
    }
    for message in &messages {
        output.line("");
        let at = output.clock().full(message.at);
        output.entry(&format!("{}:", message.role), &format!("  {at}"));
        output.print_wrapped("    ", &message.text);
    }
    Ok(())
}

/// The assistant that a conversation began with; `None` also if what is stored cannot be read.
async fn assistant_of(app: &App, head: &StoredConversation) -> Result<Option<StoredAssistant>, Report> {
    let notes = app.records()?.conversation_notes(head.id).await?;
    Ok(StoredAssistant::of_notes(&notes).ok().flatten())
}

async fn search(app: &App, text: &str, limit: usize, output: &mut Output) -> Result<(), Report> {
    let found = app.records()?.search_conversations(text, limit).await?;
    let view = |FoundMessage { conversation, message }: &FoundMessage| {
        let mut view = export::head(conversation);
        view["match"] = json!({ "seq": message.seq, "role": message.role, "text": around(&message.text, text) });
        view
    };
    match output.format {
        Format::Human if found.is_empty() => {
            output.notice(&format!("toolway: no stored message contains `{text}`"));
        }
        Format::Human => {
            for FoundMessage { conversation: head, message } in &found {
                output.entry(&record_id::short(&head.id), &format!("  {}", head.title));
                output.line(&format!("  {}: {}", message.role, around(&message.text, text)));
            }
        }
        Format::Raw => found.iter().for_each(|found| output.content(format!("{}\n", found.conversation.id).as_bytes())),
        Format::Json => output.json(&Raw::of(&found.iter().map(view).collect::<Vec<_>>())),
        Format::Ndjson => found.iter().for_each(|found| output.json(&Raw::of(&view(found)))),
    }
    Ok(())
}

/// What stands around a found text, on one line.
fn around(message: &str, text: &str) -> String {
    let line: Vec<char> = message.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let lower = |text: &str| text.to_lowercase();
    let whole: String = line.iter().collect();
    let at = lower(&whole).find(&lower(text)).map_or(0, |at| lower(&whole)[..at].chars().count());
    let start = at.saturating_sub(FOUND / 3).min(line.len());
    let shown: String = line[start..].iter().take(FOUND).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if start + FOUND < line.len() { "…" } else { "" };
    format!("{before}{shown}{after}")
}

async fn export(app: &App, id: &str, output: &mut Output) -> Result<(), Report> {
    let head = stored::find(app, id).await?;
    let messages = stored::messages(app, &head).await?;
    if matches!(output.format, Format::Json | Format::Ndjson) {
        let assistant = assistant_of(app, &head).await?;
        output.json(&export::json(&head, assistant.as_ref(), &messages));
        return Ok(());
    }
    let page = export::markdown(&head, &messages);
    output.content(page.as_bytes());
    Ok(())
}

async fn delete(app: &App, id: &str, output: &mut Output) -> Result<(), Report> {
    let head = stored::find(app, id).await?;
    app.record_changes()?.delete_conversation(head.id).await?;
    output.line(&format!("Deleted the conversation `{}` ({}).", head.title, head.id));
    Ok(())
}
