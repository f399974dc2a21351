pub(crate) fn advice(_v: &siding_model::report::TaskView) -> Option<String> { None }
pub(crate) fn ended_line(v: &siding_model::report::TaskView) -> String { format!("{} {:?}", v.task_id, v.outcome) }
