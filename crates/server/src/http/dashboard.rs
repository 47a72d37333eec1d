//! The files of the dashboard, embedded in the program.

/// A file of the page.
#[derive(Debug)]
pub(super) struct Asset {
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

const ASSETS: [Asset; 9] = [
    Asset { path: "/", content_type: HTML, text: include_str!("assets/index.html") },
    Asset { path: "/style.css", content_type: STYLE, text: include_str!("assets/style.css") },
    Asset { path: "/icon.svg", content_type: PICTURE, text: include_str!("assets/icon.svg") },
    Asset { path: "/main.js", content_type: SCRIPT, text: include_str!("assets/main.js") },
    Asset { path: "/chart.js", content_type: SCRIPT, text: include_str!("assets/chart.js") },
    Asset { path: "/format.js", content_type: SCRIPT, text: include_str!("assets/format.js") },
    Asset { path: "/cause.js", content_type: SCRIPT, text: include_str!("assets/cause.js") },
    Asset { path: "/rows.js", content_type: SCRIPT, text: include_str!("assets/rows.js") },
    Asset { path: "/views.js", content_type: SCRIPT, text: include_str!("assets/views.js") },
];

/// Returns the file that is served at `path`; `None` if there is none.
pub(super) fn asset(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}
