//! `toolway history`: stored conversations.

use clap::Subcommand;
use serde_json::{Value, json};
use toolway_host::{
    conversation::{FoundMessage, StoredConversation, StoredMessage},
    time,
};
use toolway_wire::{
    json::Raw,
    message::splice::{self, Edit},
};

use crate::{
    app::App,
    chat::stored,
    clock::Clock,
    exit_code::ExitCode,
    output::{Format, Listing, Output},
    record_args::DEFAULT_LIMIT,
    record_id,
    report::Report,
};

/// List, show, search, export and delete conversations
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
        Some(HistoryCommand::Delete { id }) => delete(app, id, output).await?,
    }
    Ok(ExitCode::Ok)
}

const LISTING: Listing<'_, StoredConversation, 5> = Listing {
    empty: "no conversations stored",
    headings: ["UPDATED", "SURFACE", "MODEL", "TITLE", "ID"],
    row,
    id: |head| head.id.to_string(),
    view,
};

fn row(head: &StoredConversation, clock: Clock) -> [String; 5] {
    let updated = clock.brief(head.updated_at);
    [updated, head.surface.clone(), head.model.clone(), head.title.clone(), record_id::short(&head.id)]
}

fn view(head: &StoredConversation) -> Value {
    json!({
        "id": head.id.to_string(),
        "title": head.title,
        "model": head.model,
        "surface": head.surface,
        "startedAt": time::rfc3339(head.started_at),
        "updatedAt": time::rfc3339(head.updated_at),
    })
}

async fn show(app: &App, id: &str, output: &mut Output) -> Result<(), Report> {
    let head = stored::find(app, id).await?;
    let messages = stored::messages(app, &head).await?;
    if output.format != Format::Human {
        output.json(&with_messages(&head, &messages));
        return Ok(());
    }
    output.print_wrapped("", &format!("{} ({}, model {}, {})", head.title, head.surface, head.model, head.id));
    for message in &messages {
        output.line("");
        let at = output.clock().full(message.at);
        output.entry(&format!("{}:", message.role), &format!("  {at}"));
        output.print_wrapped("    ", &message.text);
    }
    Ok(())
}

/// A conversation with its messages: text for readers, `body` as it was stored.
fn with_messages(head: &StoredConversation, messages: &[StoredMessage]) -> Raw {
    let message = |message: &StoredMessage| {
        let (at, role, text) = (time::rfc3339(message.at), &message.role, &message.text);
        let view = json!({ "seq": message.seq, "at": at, "role": role, "text": text, "body": null });
        match Raw::parse(message.body.clone()) {
            Ok(body) => splice::edited(&Raw::of(&view), &[Edit::Set("body", body)]),
            Err(_) => Raw::of(&view),
        }
    };
    let messages: Vec<Raw> = messages.iter().map(message).collect();
    splice::edited(&Raw::of(&view(head)), &[Edit::Set("messages", splice::array(&messages))])
}

async fn search(app: &App, text: &str, limit: usize, output: &mut Output) -> Result<(), Report> {
    let found = app.records()?.search_conversations(text, limit).await?;
    let view = |FoundMessage { conversation, message }: &FoundMessage| {
        let mut view = view(conversation);
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
        output.json(&with_messages(&head, &messages));
        return Ok(());
    }
    let mut page = format!("# {}\n\nConversation {} with {}\n", head.title, head.id, head.model);
    for message in &messages {
        let text = match message.role.as_str() {
            // Results are not markdown.
            "tool" => format!("````\n{}\n````", message.text),
            _ => message.text.clone(),
        };
        page.push_str(&format!("\n## {}\n\n{text}\n", message.role));
    }
    output.content(page.as_bytes());
    Ok(())
}

async fn delete(app: &App, id: &str, output: &mut Output) -> Result<(), Report> {
    let head = stored::find(app, id).await?;
    app.record_changes()?.delete_conversation(head.id).await?;
    output.line(&format!("Deleted the conversation `{}` ({}).", head.title, head.id));
    Ok(())
}
