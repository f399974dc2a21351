//! The style sheet of the SVG.

/// The rules for light and dark viewers. They are limited to the picture, so that they do not
/// change a page that contains the picture. Text has at least the contrast that WCAG AA requires.
pub(super) const STYLE: &str = "
.siding-timeline .page{fill:#ffffff}
.siding-timeline .lane{fill:#f3f5f7}
.siding-timeline .grid{stroke:#d1d9e0;fill:none}
.siding-timeline path.now{stroke:#bc4c00;stroke-width:1.5;fill:none}
.siding-timeline text{fill:#1f2328}
.siding-timeline .title{font-size:13px;font-weight:600}
.siding-timeline .lane-name{font-weight:600}
.siding-timeline .faint,.siding-timeline .note,.siding-timeline .tick{fill:#59636e}
.siding-timeline .note-inside{fill:#ffffff}
.siding-timeline .tick{text-anchor:middle}
.siding-timeline text.now{fill:#1f2328;stroke:none}
.siding-timeline .succeeded rect{fill:#1a7f37}
.siding-timeline .failed rect{fill:#cf222e}
.siding-timeline .running rect{fill:#0969da}
.siding-timeline .stopped rect{fill:#6e7781}
.siding-timeline rect.foreground{fill-opacity:.45}
.siding-timeline .mark circle{fill:#ffffff;stroke:#1f2328}
.siding-timeline .mark text{font-size:9px;font-weight:600;text-anchor:middle}
.siding-timeline a:focus-visible rect{stroke:#1f2328;stroke-width:2}
@media (prefers-color-scheme:dark){
.siding-timeline .page{fill:#0d1117}
.siding-timeline .lane{fill:#1a2028}
.siding-timeline .grid{stroke:#30363d}
.siding-timeline path.now{stroke:#f0883e}
.siding-timeline text{fill:#f0f6fc}
.siding-timeline .faint,.siding-timeline .note,.siding-timeline .tick{fill:#9198a1}
.siding-timeline .note-inside{fill:#0d1117}
.siding-timeline text.now{fill:#f0f6fc;stroke:none}
.siding-timeline .succeeded rect{fill:#3fb950}
.siding-timeline .failed rect{fill:#f85149}
.siding-timeline .running rect{fill:#4493f8}
.siding-timeline .stopped rect{fill:#8b949e}
.siding-timeline .mark circle{fill:#0d1117;stroke:#f0f6fc}
.siding-timeline a:focus-visible rect{stroke:#f0f6fc}
}
";
