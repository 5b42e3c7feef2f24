//! The embedded pages. There is no build step: the files of `web/` are served as they are, without the lines of scripts that are
//! only a comment.

use bytes::Bytes;
use http::{Response, StatusCode};
use toolway_wire::down::http::ResponseBody;

use crate::reply;

/// Largest size of all files together, in bytes.
pub const MAX_TOTAL_BYTES: usize = 400_000;

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
    page("/api.js", SCRIPT, include_bytes!("../web/api.js")),
    page("/app.js", SCRIPT, include_bytes!("../web/app.js")),
    page("/approval.js", SCRIPT, include_bytes!("../web/approval.js")),
    page("/argument-rows.js", SCRIPT, include_bytes!("../web/argument-rows.js")),
    page("/argument-view.js", SCRIPT, include_bytes!("../web/argument-view.js")),
    page("/assistant-form.js", SCRIPT, include_bytes!("../web/assistant-form.js")),
    page("/assistants.js", SCRIPT, include_bytes!("../web/assistants.js")),
    page("/attachments.js", SCRIPT, include_bytes!("../web/attachments.js")),
    page("/batch.js", SCRIPT, include_bytes!("../web/batch.js")),
    page("/call-filter.js", SCRIPT, include_bytes!("../web/call-filter.js")),
    page("/calls.js", SCRIPT, include_bytes!("../web/calls.js")),
    page("/chat.js", SCRIPT, include_bytes!("../web/chat.js")),
    page("/completing.js", SCRIPT, include_bytes!("../web/completing.js")),
    page("/composer.js", SCRIPT, include_bytes!("../web/composer.js")),
    page("/content.js", SCRIPT, include_bytes!("../web/content.js")),
    page("/coverage.js", SCRIPT, include_bytes!("../web/coverage.js")),
    page("/difference.js", SCRIPT, include_bytes!("../web/difference.js")),
    page("/dom.js", SCRIPT, include_bytes!("../web/dom.js")),
    page("/entry-form.js", SCRIPT, include_bytes!("../web/entry-form.js")),
    page("/external.js", SCRIPT, include_bytes!("../web/external.js")),
    page("/fields.js", SCRIPT, include_bytes!("../web/fields.js")),
    page("/form.js", SCRIPT, include_bytes!("../web/form.js")),
    page("/format.js", SCRIPT, include_bytes!("../web/format.js")),
    page("/highlight.js", SCRIPT, include_bytes!("../web/highlight.js")),
    page("/icon.svg", ICON, include_bytes!("../web/icon.svg")),
    page("/import.js", SCRIPT, include_bytes!("../web/import.js")),
    page("/inbox.js", SCRIPT, include_bytes!("../web/inbox.js")),
    page("/index.html", HTML, include_bytes!("../web/index.html")),
    page("/item.js", SCRIPT, include_bytes!("../web/item.js")),
    page("/json.js", SCRIPT, include_bytes!("../web/json.js")),
    page("/keys.js", SCRIPT, include_bytes!("../web/keys.js")),
    page("/live.js", SCRIPT, include_bytes!("../web/live.js")),
    page("/markdown.js", SCRIPT, include_bytes!("../web/markdown.js")),
    page("/meter.js", SCRIPT, include_bytes!("../web/meter.js")),
    page("/news.js", SCRIPT, include_bytes!("../web/news.js")),
    page("/offers.css", STYLE, include_bytes!("../web/offers.css")),
    page("/offers.js", SCRIPT, include_bytes!("../web/offers.js")),
    page("/outcome.js", SCRIPT, include_bytes!("../web/outcome.js")),
    page("/parts.js", SCRIPT, include_bytes!("../web/parts.js")),
    page("/prompts.js", SCRIPT, include_bytes!("../web/prompts.js")),
    page("/questions.js", SCRIPT, include_bytes!("../web/questions.js")),
    page("/reply.js", SCRIPT, include_bytes!("../web/reply.js")),
    page("/resources.js", SCRIPT, include_bytes!("../web/resources.js")),
    page("/run-panel.js", SCRIPT, include_bytes!("../web/run-panel.js")),
    page("/sampling.js", SCRIPT, include_bytes!("../web/sampling.js")),
    page("/schema-form.js", SCRIPT, include_bytes!("../web/schema-form.js")),
    page("/schema.js", SCRIPT, include_bytes!("../web/schema.js")),
    page("/screens.css", STYLE, include_bytes!("../web/screens.css")),
    page("/server-fields.js", SCRIPT, include_bytes!("../web/server-fields.js")),
    page("/server-form.js", SCRIPT, include_bytes!("../web/server-form.js")),
    page("/server-parts.js", SCRIPT, include_bytes!("../web/server-parts.js")),
    page("/servers.js", SCRIPT, include_bytes!("../web/servers.js")),
    page("/sign-in.js", SCRIPT, include_bytes!("../web/sign-in.js")),
    page("/state.js", SCRIPT, include_bytes!("../web/state.js")),
    page("/stream.js", SCRIPT, include_bytes!("../web/stream.js")),
    page("/style.css", STYLE, include_bytes!("../web/style.css")),
    page("/task-line.js", SCRIPT, include_bytes!("../web/task-line.js")),
    page("/tasks.js", SCRIPT, include_bytes!("../web/tasks.js")),
    page("/tested.js", SCRIPT, include_bytes!("../web/tested.js")),
    page("/theme.js", SCRIPT, include_bytes!("../web/theme.js")),
    page("/tool-choice.js", SCRIPT, include_bytes!("../web/tool-choice.js")),
    page("/tools.js", SCRIPT, include_bytes!("../web/tools.js")),
    page("/uri-template.js", SCRIPT, include_bytes!("../web/uri-template.js")),
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
    /// Size in bytes, as it is served.
    pub fn size(&self) -> usize {
        self.served().len()
    }

    /// The file without comments on lines of their own. These lines stay, empty, so that a position is that of the file.
    fn served(&self) -> Bytes {
        if self.kind != SCRIPT {
            return Bytes::from_static(self.body);
        }
        let is_comment = |line: &[u8]| line.trim_ascii_start().starts_with(b"//");
        let lines = self.body.split(|byte| *byte == b'\n');
        let kept: Vec<&[u8]> = lines.map(|line| if is_comment(line) { &[] } else { line }).collect();
        Bytes::from(kept.join(&b'\n'))
    }
}

/// The file at a path.
pub(crate) fn find(path: &str) -> Option<Response<ResponseBody>> {
    let path = if path == "/" { "/index.html" } else { path };
    let page = PAGES.iter().find(|page| page.path == path)?;
    Some(reply::whole(StatusCode::OK, page.kind, page.served()))
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
    fn comments_are_not_served_and_lines_keep_their_numbers() {
        for page in PAGES {
            let text = String::from_utf8(page.served().to_vec()).unwrap();
            assert_eq!(text.lines().count(), page.body.split(|byte| *byte == b'\n').count() - 1, "{}", page.path);
            assert!(!text.lines().any(|line| line.trim_start().starts_with("//")), "{}", page.path);
        }
        let script = Page { path: "/x.js", kind: super::SCRIPT, body: b"// one\nf(\"// two\"); // three\n  // four\n" };
        assert_eq!(script.served(), "\nf(\"// two\"); // three\n\n");
    }

    #[test]
    fn all_files_together_are_small() {
        let total: usize = PAGES.iter().map(Page::size).sum();
        assert!(total <= MAX_TOTAL_BYTES, "{total} bytes");
    }
}
