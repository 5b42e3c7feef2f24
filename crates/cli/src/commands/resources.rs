//! `toolway resources`: lists, reads and watches resources.

mod watch;

use std::path::PathBuf;

use toolway_config::ServerName;
use toolway_host::{
    call::Target,
    catalog::{Catalog, Entry, ItemKind, PublicUri},
    connection::Lists,
};
use toolway_wire::{
    json::Raw,
    message::item::{Resource, Template},
};

use super::call;
use crate::{
    app::App,
    exit_code::ExitCode,
    lifecycle::CalledItem,
    multi_server_host::MultiServerHost,
    output::{
        Format, Output,
        content::{self, Piece},
    },
    report::Report,
    save,
    single_server_host::SingleServerHost,
};

/// List, read and watch resources of one server or of all
///
/// Without a server, lists the resources of all configured servers, each with its server, which `read` needs before the URI.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct ResourcesArgs {
    #[command(subcommand)]
    command: Option<ResourcesCommand>,

    #[command(flatten)]
    list: ResourceListArgs,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ResourcesCommand {
    /// List the resources
    List(ResourceListArgs),
    /// List the resource templates
    Templates(ResourceListArgs),
    /// Read one resource
    #[command(override_usage = "toolway resources read [OPTIONS] [SERVER] <URI>")]
    Read(ReadArgs),
    /// Print the changes of a resource until Ctrl-C
    #[command(override_usage = "toolway resources watch [OPTIONS] [SERVER] <URI>")]
    Watch(watch::WatchArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ResourceListArgs {
    /// The server [default: all configured servers]; omit with --stdio or --url
    server: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReadArgs {
    /// `<server> <URI>` or `<server>.<URI>`, or `<URI>` if an option gives the server
    #[arg(value_name = "SERVER_AND_URI", num_args = 1..=2, required = true)]
    words: Vec<String>,

    /// Write the content to this directory or file
    #[arg(long, value_name = "PATH")]
    save: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  toolway resources                            Resources of all servers
  toolway resources files
  toolway resources read --stdio 'toolway sample' memo://today
  toolway resources read files file:///notes.txt --save notes.txt
  toolway resources watch files file:///notes.txt -o ndjson
  toolway resources templates files -o json";

pub(crate) async fn run(args: &ResourcesArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    match &args.command {
        None => list::<Resource>(&args.list, app, output).await,
        Some(ResourcesCommand::List(args)) => list::<Resource>(args, app, output).await,
        Some(ResourcesCommand::Templates(args)) => list::<Template>(args, app, output).await,
        Some(ResourcesCommand::Read(args)) => read(args, app, output).await,
        Some(ResourcesCommand::Watch(args)) => watch::run(args, app, output).await,
    }
}

/// A resource or a template in a list.
trait ListedResource: Sized {
    const KIND: ItemKind;
    const KEY: &'static str;
    fn of<'a>(catalog: &'a Catalog, server: &ServerName) -> &'a [Entry<Self, PublicUri>];
    fn all(catalog: &Catalog) -> &[Entry<Self, PublicUri>];
    fn address(&self) -> &str;
    fn about(&self) -> String;
    fn raw(&self) -> &Raw;
}

async fn list<T: ListedResource>(args: &ResourceListArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words: Vec<String> = args.server.iter().cloned().collect();
    if words.is_empty() && app.reach.names_no_server() {
        return app.list_all(T::KIND, output, show_all::<T>).await;
    }
    let target = app.target(&mut words, output)?;
    if !words.is_empty() {
        return Err(Report::usage("arguments", "the server is given twice; use `resources read` to read a resource"));
    }
    app.with_server(target, Lists::Only(T::KIND), output, async |single, output| {
        let catalog = single.catalog(T::KIND, output)?;
        let items: Vec<&T> = T::of(&catalog, single.name()).iter().map(|entry| &*entry.item).collect();
        show_list(&items, output);
        Ok(ExitCode::Ok)
    })
    .await
}

fn show_list<T: ListedResource>(items: &[&T], output: &mut Output) {
    match output.format {
        Format::Json => output.json(&content::listed(T::KEY, items.iter().map(|item| item.raw()))),
        Format::Ndjson => items.iter().for_each(|item| output.json(item.raw())),
        Format::Raw => items.iter().for_each(|item| output.content(format!("{}\n", item.address()).as_bytes())),
        Format::Human => {
            for item in items {
                let about = output.fit(item.address().chars().count() + 2, &item.about());
                output.entry(item.address(), &format!("  {about}"));
            }
        }
    }
}

fn show_all<T: ListedResource>(hosts: &MultiServerHost, output: &mut Output) {
    let catalog = hosts.host.catalog();
    let entries = T::all(&catalog);
    let object = |entry: &Entry<T, PublicUri>| {
        hosts.listing_age(&entry.origin).with_origin(entry.item.raw(), &entry.origin, None)
    };
    match output.format {
        Format::Json => {
            let objects: Vec<Raw> = entries.iter().map(object).collect();
            output.json(&content::listed(T::KEY, objects.iter()));
        }
        Format::Ndjson => entries.iter().for_each(|entry| output.json(&object(entry))),
        Format::Raw => {
            let line = |entry: &Entry<T, PublicUri>| format!("{}\t{}\n", entry.origin.server, entry.item.address());
            entries.iter().for_each(|entry| output.content(line(entry).as_bytes()));
        }
        Format::Human => {
            for entry in entries {
                let (server, item) = (&entry.origin.server, &entry.item);
                let remark = hosts.listing_age(&entry.origin).remark();
                let name = format!("{server} {}", item.address());
                let about = output.fit(name.chars().count() + 2, &item.about());
                output.entry(&name, &format!("  {about}{remark}"));
            }
        }
    }
}

async fn read(args: &ReadArgs, app: &App, output: &mut Output) -> Result<ExitCode, Report> {
    let mut words = args.words.clone();
    app.split_address(&mut words);
    let target = app.target(&mut words, output)?;
    let [uri] = words.as_slice() else {
        return Err(Report::usage("arguments", "give the server and one URI"));
    };
    let item = Target::ResourceOf(target.origin(uri));
    app.refuse_excluded(&target, ItemKind::Resource, item.clone()).await?;
    let answerer = app.plain_answerer()?;
    let item = CalledItem { target, item };
    app.with_called_server(item, Lists::Ignored, answerer, output, async |single, output| {
        read_one(single, app, uri, args.save.as_ref(), output).await
    })
    .await
}

async fn read_one(
    single: &SingleServerHost,
    app: &App,
    uri: &str,
    save: Option<&PathBuf>,
    output: &mut Output,
) -> Result<ExitCode, Report> {
    let request = single.request(app, Target::ResourceOf(single.origin(uri)), None);
    let result = single.call(app, request, "resources/read", output).await?;
    let contents = result.get("contents").map(|list| list.elements()).unwrap_or_default();
    let pieces: Vec<Piece> = contents.iter().map(Piece::of_resource).collect();
    match output.format {
        Format::Json | Format::Ndjson => output.json(&result),
        Format::Raw if save.is_none() => exactly(&pieces, output),
        Format::Human if save.is_none() => pieces.iter().for_each(|piece| output.line(&piece.described())),
        Format::Raw | Format::Human => {}
    }
    if let Some(place) = save {
        let stem = uri.rsplit('/').find(|part| !part.is_empty()).unwrap_or("resource");
        for (number, piece) in (1..).zip(&pieces) {
            if let Some(file) = save::write(place, stem, number, piece)? {
                output.notice(&format!("Written: {}", file.display()));
            }
        }
    }
    Ok(ExitCode::Ok)
}

/// A single text is printed unchanged; of several, each ends with a line break.
fn exactly(pieces: &[Piece], output: &mut Output) {
    match pieces {
        [Piece::Text(text)] => output.content(text.as_bytes()),
        several => call::raw(several, output),
    }
}

impl ListedResource for Resource {
    const KIND: ItemKind = ItemKind::Resource;
    const KEY: &'static str = "resources";

    fn of<'a>(catalog: &'a Catalog, server: &ServerName) -> &'a [Entry<Self, PublicUri>] {
        catalog.resources_of(server)
    }

    fn all(catalog: &Catalog) -> &[Entry<Self, PublicUri>] {
        catalog.resources()
    }

    fn address(&self) -> &str {
        &self.uri
    }

    fn about(&self) -> String {
        about(self.title.as_ref().unwrap_or(&self.name), self.mime_type.as_ref(), self.description.as_ref())
    }

    fn raw(&self) -> &Raw {
        &self.raw
    }
}

impl ListedResource for Template {
    const KIND: ItemKind = ItemKind::Template;
    const KEY: &'static str = "resourceTemplates";

    fn of<'a>(catalog: &'a Catalog, server: &ServerName) -> &'a [Entry<Self, PublicUri>] {
        catalog.templates_of(server)
    }

    fn all(catalog: &Catalog) -> &[Entry<Self, PublicUri>] {
        catalog.templates()
    }

    fn address(&self) -> &str {
        &self.uri_template
    }

    fn about(&self) -> String {
        about(&self.name, self.mime_type.as_ref(), self.description.as_ref())
    }

    fn raw(&self) -> &Raw {
        &self.raw
    }
}

fn about(name: &str, mime_type: Option<&String>, description: Option<&String>) -> String {
    let mime_type = mime_type.map(|mime_type| format!(" ({mime_type})")).unwrap_or_default();
    let line = |text: &String| text.trim().lines().next().unwrap_or_default().to_owned();
    let description = description.map(|text| format!(": {}", line(text))).unwrap_or_default();
    format!("{name}{mime_type}{description}")
}
