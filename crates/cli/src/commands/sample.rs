//! `toolway sample`: serves the embedded sample server.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolway_sample::{Notes, Sample};
use toolway_wire::{
    down::{
        self, DownstreamOptions, Service,
        http::{HttpDownstream, HttpDownstreamOptions},
    },
    revision::{Era, Revision},
};

use crate::{args::EraArg, exit_code::ExitCode, output::Output};

/// Serve the embedded sample server
///
/// Serves on standard input and output, or with --http on loopback. Its tools return text, structured content and an image,
/// report progress, and request user input. With --era, supports only the protocol revisions of one era.
#[derive(Debug, clap::Args)]
pub(crate) struct SampleArgs {
    /// Serve HTTP on a free loopback port instead, and print the URL
    #[arg(long)]
    http: bool,

    /// Play another server of `toolway demo`
    #[arg(long, hide = true, value_enum)]
    play: Option<Role>,
}

/// The servers of `toolway demo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    /// The server that works.
    Notes,
    /// Exits before the handshake.
    Crashes,
    /// Never answers.
    Hangs,
}

/// The protocol revisions that the server supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedEra {
    /// The revisions with a session, 2024-11-05 to 2025-11-25.
    Legacy,
    /// The revision without a session, 2026-07-28.
    Modern,
    /// All revisions.
    Both,
}

pub(crate) async fn run(args: &SampleArgs, era: EraArg, output: &mut Output) -> ExitCode {
    let options = DownstreamOptions { revisions: ServedEra::of(era).revisions(), ..DownstreamOptions::default() };
    let stop = CancellationToken::new();
    let sample: Arc<dyn Service> = match args.play {
        None => Arc::new(Sample::new()),
        Some(Role::Notes) => Arc::new(Notes::default()),
        Some(Role::Crashes) => return output.fail(ExitCode::Internal, "cannot read the variable WEATHER_API_KEY"),
        Some(Role::Hangs) => return std::future::pending().await,
    };
    if !args.http {
        return match down::stdio::serve(tokio::io::stdin(), tokio::io::stdout(), sample, options, stop).await {
            Ok(()) => ExitCode::Ok,
            Err(error) => output.fail(ExitCode::Internal, &error.to_string()),
        };
    }
    match listen(sample, options).await {
        Ok((listener, downstream, address)) => {
            output.line(&format!("listening on {address}"));
            match down::http::serve(listener, downstream, stop).await {
                Ok(()) => ExitCode::Ok,
                Err(error) => output.fail(ExitCode::Internal, &error.to_string()),
            }
        }
        Err(error) => output.fail(ExitCode::Internal, &error.to_string()),
    }
}

/// A free port of this machine, and the downstream that will serve it.
pub(crate) async fn listen(
    sample: Arc<dyn Service>,
    options: DownstreamOptions,
) -> std::io::Result<(TcpListener, Arc<HttpDownstream>, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}/mcp", listener.local_addr()?);
    let options = HttpDownstreamOptions { downstream: options, ..HttpDownstreamOptions::default() };
    let downstream = HttpDownstream::new(sample, options).map_err(std::io::Error::other)?;
    Ok((listener, downstream, address))
}

impl ServedEra {
    fn of(era: EraArg) -> Self {
        match era {
            EraArg::Auto => Self::Both,
            EraArg::Legacy => Self::Legacy,
            EraArg::Modern => Self::Modern,
        }
    }

    pub(crate) fn revisions(self) -> Vec<Revision> {
        match self {
            Self::Legacy => Revision::of(Era::Legacy).collect(),
            Self::Modern => Revision::of(Era::Modern).collect(),
            Self::Both => Revision::ALL.to_vec(),
        }
    }
}
