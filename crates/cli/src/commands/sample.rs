//! `toolway sample`: the embedded server by itself.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolway_sample::Sample;
use toolway_wire::{
    down::{
        self, FaceOptions,
        http::{HttpFace, HttpFaceOptions},
    },
    revision::{Era, Revision},
};

use crate::{args::EraArg, exit_code::ExitCode, output::Output};

/// Serve the embedded sample server
///
/// Over standard input and output, as other programs start it, or over HTTP on this machine only. It has tools that
/// show text, structured content, a picture, progress and a question in the middle of a call. With --era it speaks
/// the revisions of one era only.
#[derive(Debug, clap::Args)]
pub(crate) struct SampleArgs {
    /// Serve HTTP on a free port of this machine instead, and print the address
    #[arg(long)]
    http: bool,
}

/// Which revisions a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// Those with a session, 2024-11-05 to 2025-11-25.
    Legacy,
    /// The one without, 2026-07-28.
    Modern,
    /// All of them.
    Both,
}

pub(crate) async fn run(args: &SampleArgs, era: EraArg, output: &mut Output) -> ExitCode {
    let options = FaceOptions { revisions: Spoken::of(era).revisions(), ..FaceOptions::default() };
    let stop = CancellationToken::new();
    let sample = Arc::new(Sample::new());
    if !args.http {
        return match down::stdio::serve(tokio::io::stdin(), tokio::io::stdout(), sample, options, stop).await {
            Ok(()) => ExitCode::Ok,
            Err(error) => output.failed(ExitCode::Internal, &error.to_string()),
        };
    }
    match listen(sample, options).await {
        Ok((listener, face, address)) => {
            output.line(&format!("listening on {address}"));
            match down::http::serve(listener, face, stop).await {
                Ok(()) => ExitCode::Ok,
                Err(error) => output.failed(ExitCode::Internal, &error.to_string()),
            }
        }
        Err(error) => output.failed(ExitCode::Internal, &error.to_string()),
    }
}

/// A free port of this machine, and the face that will serve it.
pub(crate) async fn listen(
    sample: Arc<Sample>,
    options: FaceOptions,
) -> std::io::Result<(TcpListener, Arc<HttpFace>, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}/mcp", listener.local_addr()?);
    let options = HttpFaceOptions { face: options, ..HttpFaceOptions::default() };
    let face = HttpFace::new(sample, options).map_err(std::io::Error::other)?;
    Ok((listener, face, address))
}

impl Spoken {
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
