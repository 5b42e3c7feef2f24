//! The embedded pages. There is no build step: the files of `web/` are served as they are.

use bytes::Bytes;
use http::{Response, StatusCode};
use toolway_wire::down::http::ResponseBody;

use crate::reply;

/// Largest size of all files together, in bytes.
pub const MAX_TOTAL_BYTES: usize = 400 * 1024;

/// One embedded file.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Path in the URL.
    pub path: &'static str,
    kind: &'static str,
    body: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// All files of `web/`.
pub const PAGES: &[Page] = &[
    page("/add.js", SCRIPT, include_bytes!("../web/add.js")),
    page("/api.js", SCRIPT, include_bytes!("../web/api.js")),
    page("/app.js", SCRIPT, include_bytes!("../web/app.js")),
    page("/approval.js", SCRIPT, include_bytes!("../web/approval.js")),
    page("/argument-rows.js", SCRIPT, include_bytes!("../web/argument-rows.js")),
    page("/batch.js", SCRIPT, include_bytes!("../web/batch.js")),
    page("/calls.js", SCRIPT, include_bytes!("../web/calls.js")),
    page("/chat.js", SCRIPT, include_bytes!("../web/chat.js")),
    page("/content.js", SCRIPT, include_bytes!("../web/content.js")),
    page("/coverage.js", SCRIPT, include_bytes!("../web/coverage.js")),
    page("/dom.js", SCRIPT, include_bytes!("../web/dom.js")),
    page("/external.js", SCRIPT, include_bytes!("../web/external.js")),
    page("/form.js", SCRIPT, include_bytes!("../web/form.js")),
    page("/format.js", SCRIPT, include_bytes!("../web/format.js")),
    page("/icon.svg", ICON, include_bytes!("../web/icon.svg")),
    page("/inbox.js", SCRIPT, include_bytes!("../web/inbox.js")),
    page("/index.html", HTML, include_bytes!("../web/index.html")),
    page("/item.js", SCRIPT, include_bytes!("../web/item.js")),
    page("/json.js", SCRIPT, include_bytes!("../web/json.js")),
    page("/live.js", SCRIPT, include_bytes!("../web/live.js")),
    page("/markdown.js", SCRIPT, include_bytes!("../web/markdown.js")),
    page("/outcome.js", SCRIPT, include_bytes!("../web/outcome.js")),
    page("/parts.js", SCRIPT, include_bytes!("../web/parts.js")),
    page("/questions.js", SCRIPT, include_bytes!("../web/questions.js")),
    page("/reply.js", SCRIPT, include_bytes!("../web/reply.js")),
    page("/sampling.js", SCRIPT, include_bytes!("../web/sampling.js")),
    page("/screens.css", STYLE, include_bytes!("../web/screens.css")),
    page("/servers.js", SCRIPT, include_bytes!("../web/servers.js")),
    page("/sign-in.js", SCRIPT, include_bytes!("../web/sign-in.js")),
    page("/state.js", SCRIPT, include_bytes!("../web/state.js")),
    page("/stream.js", SCRIPT, include_bytes!("../web/stream.js")),
    page("/style.css", STYLE, include_bytes!("../web/style.css")),
    page("/task-line.js", SCRIPT, include_bytes!("../web/task-line.js")),
    page("/tasks.js", SCRIPT, include_bytes!("../web/tasks.js")),
    page("/theme.js", SCRIPT, include_bytes!("../web/theme.js")),
    page("/window.js", SCRIPT, include_bytes!("../web/window.js")),
];

/// Shown for a token that is wrong, spent or expired.
const NO_TOKEN: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Link not valid · Toolway</title>\
    <link rel=\"icon\" href=\"/icon.svg\" type=\"image/svg+xml\"><link rel=\"stylesheet\" href=\"/style.css\">\
    <script src=\"/theme.js\"></script><main class=\"empty\"><img src=\"/icon.svg\" alt=\"\" width=\"44\" height=\"44\">\
    <h1>This link is not valid</h1><p>A link works once, for ten minutes.</p>\
    <p>Run <code class=\"command\">toolway console</code> to get a new one.</p>\
    <p><a class=\"button\" href=\"/\">I am signed in already</a></p></main></html>";

impl Page {
    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.body.len()
    }
}

/// The file at a path.
pub(crate) fn find(path: &str) -> Option<Response<ResponseBody>> {
    let path = if path == "/" { "/index.html" } else { path };
    let page = PAGES.iter().find(|page| page.path == path)?;
    Some(reply::whole(StatusCode::OK, page.kind, Bytes::from_static(page.body)))
}

/// The answer to a token that is wrong, spent or expired.
pub(crate) fn invalid_link() -> Response<ResponseBody> {
    reply::whole(StatusCode::FORBIDDEN, HTML, NO_TOKEN)
}

const fn page(path: &'static str, kind: &'static str, body: &'static [u8]) -> Page {
    Page { path, kind, body }
}

#[cfg(test)]
mod tests {
    use super::{MAX_TOTAL_BYTES, PAGES, Page};

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| format!("/{}", entry.unwrap().file_name().into_string().unwrap()))
            .collect();
        let mut embedded: Vec<&str> = PAGES.iter().map(|page| page.path).collect();
        files.sort();
        embedded.sort_unstable();
        assert_eq!(embedded, files);
    }

    #[test]
    fn all_files_together_are_small() {
        let total: usize = PAGES.iter().map(Page::size).sum();
        assert!(total <= MAX_TOTAL_BYTES, "{total} bytes");
    }
}
