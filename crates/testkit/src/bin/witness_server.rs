//! The witness server, over stdio or on a port.
//!
//! `witness-server FILE (--listen ADDRESS | --stdio)`. On a port it serves `/mcp` in all revisions and prints the URL to
//! standard output.

use std::{
    env,
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use toolway_testkit::{effects::EffectsFile, witness::Witness};
use toolway_wire::down::{
    self, DownstreamOptions,
    http::{HttpDownstream, HttpDownstreamOptions},
};

#[tokio::main]
async fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [file, "--stdio"] => {
            let input = tokio::io::stdin();
            let output = tokio::io::stdout();
            let witness = Arc::new(Witness::new(EffectsFile::open(Path::new(file))?));
            let serving =
                down::stdio::serve(input, output, witness, DownstreamOptions::default(), CancellationToken::new());
            serving.await.map_err(io::Error::other)
        }
        [file, "--listen", address] => listen(Witness::new(EffectsFile::open(Path::new(file))?), address).await,
        _ => Err(io::Error::other("usage: witness-server FILE (--listen ADDRESS | --stdio)")),
    }
}

async fn listen(witness: Witness, address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    let options = HttpDownstreamOptions::default();
    let url = format!("http://{}{}", listener.local_addr()?, options.path.as_deref().unwrap_or_default());
    let downstream = HttpDownstream::new(Arc::new(witness), options).map_err(io::Error::other)?;
    let mut output = io::stdout();
    writeln!(output, "{url}")?;
    output.flush()?;
    down::http::serve(listener, downstream, CancellationToken::new()).await
}
