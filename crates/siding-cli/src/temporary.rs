pub(crate) fn advice(_v: &siding_model::report::TaskView) -> Option<String> { None }
pub(crate) fn ended_line(v: &siding_model::report::TaskView) -> String { format!("{} {:?}", v.task_id, v.outcome) }
pub(crate) struct Excerpt { pub(crate) text: String, pub(crate) truncated: bool }
pub(crate) fn excerpt(dir: &siding_core::store::TaskDir, _h: u64, _m: usize) -> std::io::Result<Excerpt> { Ok(Excerpt { text: std::fs::read_to_string(dir.path().join("output"))?, truncated: false }) }
