//! The addresses of the server.

use http::Method;
use siding_model::id::TaskId;

use crate::access::RequestEffect;

/// The path of the metrics, which scrapers use by default.
pub(crate) const METRICS_PATH: &str = "/metrics";
/// An id with which the part of a path after the name of a task is parsed.
const ANY_ID: &str = "b-zzzzzzzzzzzz";

/// The target of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route<'p> {
    /// A page for a person.
    Page(PageRoute),
    /// The page of the task with this name, or with an id that begins with it.
    NamedTask(&'p str),
    /// A file of the page, such as its style sheet.
    Asset(&'p str),
    /// Data for a program.
    Api(ApiRoute),
    /// Data or an act for a program, about the task with this name, or with an id that begins with
    /// it.
    NamedApi {
        /// The name, or the beginning of an id.
        name: &'p str,
        /// The effect of the request.
        effect: RequestEffect,
    },
    /// The metrics of all tasks, for Prometheus.
    Metrics,
    /// An event stream.
    Stream(StreamRoute),
    /// An act on a task.
    Act(TaskId, Act),
    /// An act on the terminal of a task.
    Terminal(TaskId, TerminalAct),
    /// Acknowledges notices.
    Acknowledge,
}

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageRoute {
    /// The tasks.
    Overview,
    /// One task.
    Task(TaskId),
    /// Rendered lines of a task's output, which the page of the task inserts.
    Lines(TaskId),
    /// The rendered screen of a task's terminal, which the page of the task inserts.
    Screen(TaskId),
    /// The exact bytes of a task's output.
    Download(TaskId),
    /// The tasks over time.
    Timeline,
    /// The sessions.
    Sessions,
    /// The workflows.
    Workflows,
    /// One workflow, by the id of its first task.
    Workflow(TaskId),
    /// The usual duration and result of each command.
    History,
    /// The settings with their origins.
    Settings,
    /// The checks of the machine.
    Doctor,
}

/// Data for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiRoute {
    /// All tasks.
    Tasks,
    /// One task.
    Task(TaskId),
    /// A page of a task's output.
    Output(TaskId),
    /// Why a task is quiet.
    Why(TaskId),
    /// The present resource use of a running task.
    Usage(TaskId),
    /// The description of these addresses.
    OpenApi,
}

/// An event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamRoute {
    /// The changes of all tasks.
    Tasks,
    /// The lines of a task's output as they are written.
    Output(TaskId),
}

/// An act on a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Ends the task with everything that it started.
    Stop,
    /// Moves the deadline.
    Extend,
    /// Writes to the task's standard input.
    Input,
    /// Ends the supervision of an adopted task.
    Release,
}

/// An act on the terminal of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalAct {
    /// Types keys.
    Keys,
    /// Types the secret for which the program asks.
    Answer,
    /// Releases the terminal that the person of a page has taken.
    Return,
}

/// The reason why an address has no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteError {
    /// There is nothing at this address.
    NotFound,
    /// The address does not accept this method.
    WrongMethod,
}

impl<'p> Route<'p> {
    /// Returns the route of a request. A path is compared as it was sent: escapes and dots have no
    /// meaning, so that every check sees the same path as the handler.
    pub(crate) fn parse(method: &Method, path: &'p str) -> Result<Self, RouteError> {
        let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
        let (wanted, route) = match segments.as_slice() {
            ["api", "v1", rest @ ..] => parse_api(rest)?,
            ["metrics"] => (Method::GET, Self::Metrics),
            ["assets", name] => (Method::GET, Self::Asset(name)),
            ["tasks", id, "follow"] => {
                (Method::GET, Self::Stream(StreamRoute::Output(parse_id(id)?)))
            }
            ["tasks", name] if is_task_name(name) => (Method::GET, Self::NamedTask(name)),
            rest => (Method::GET, Self::Page(parse_page(rest)?)),
        };
        let is_head = *method == Method::HEAD && wanted == Method::GET;
        if *method == wanted || is_head { Ok(route) } else { Err(RouteError::WrongMethod) }
    }

    /// Returns the effect of the request.
    pub(crate) const fn effect(&self) -> RequestEffect {
        match self {
            Self::Stream(_) => RequestEffect::Stream,
            Self::Page(_) | Self::NamedTask(_) | Self::Asset(_) | Self::Api(_) | Self::Metrics => {
                RequestEffect::Read
            }
            Self::NamedApi { effect, .. } => *effect,
            Self::Act(..) | Self::Terminal(..) | Self::Acknowledge => RequestEffect::Change,
        }
    }
}

fn parse_page(segments: &[&str]) -> Result<PageRoute, RouteError> {
    Ok(match segments {
        [""] => PageRoute::Overview,
        ["timeline"] => PageRoute::Timeline,
        ["sessions"] => PageRoute::Sessions,
        ["workflows"] => PageRoute::Workflows,
        ["workflows", id] => PageRoute::Workflow(parse_id(id)?),
        ["history"] => PageRoute::History,
        ["settings"] => PageRoute::Settings,
        ["doctor"] => PageRoute::Doctor,
        ["tasks", id] => PageRoute::Task(parse_id(id)?),
        ["tasks", id, "lines"] => PageRoute::Lines(parse_id(id)?),
        ["tasks", id, "screen"] => PageRoute::Screen(parse_id(id)?),
        ["tasks", id, "download"] => PageRoute::Download(parse_id(id)?),
        _ => return Err(RouteError::NotFound),
    })
}

fn parse_api<'p>(segments: &[&'p str]) -> Result<(Method, Route<'p>), RouteError> {
    let read = match segments {
        ["tasks"] => ApiRoute::Tasks,
        ["events"] => return Ok((Method::GET, Route::Stream(StreamRoute::Tasks))),
        ["openapi.json"] => ApiRoute::OpenApi,
        ["tasks", name, rest @ ..] if is_task_name(name) => {
            let (method, route) = parse_api(&[&["tasks", ANY_ID][..], rest].concat())?;
            return Ok((method, Route::NamedApi { name, effect: route.effect() }));
        }
        ["tasks", id] => ApiRoute::Task(parse_id(id)?),
        ["tasks", id, "output"] => ApiRoute::Output(parse_id(id)?),
        ["tasks", id, "why"] => ApiRoute::Why(parse_id(id)?),
        ["tasks", id, "usage"] => ApiRoute::Usage(parse_id(id)?),
        ["tasks", id, act] => {
            let id = parse_id(id)?;
            let route = match *act {
                "stop" => Route::Act(id, Act::Stop),
                "extend" => Route::Act(id, Act::Extend),
                "input" => Route::Act(id, Act::Input),
                "release" => Route::Act(id, Act::Release),
                "keys" => Route::Terminal(id, TerminalAct::Keys),
                "answer" => Route::Terminal(id, TerminalAct::Answer),
                "return" => Route::Terminal(id, TerminalAct::Return),
                _ => return Err(RouteError::NotFound),
            };
            return Ok((Method::POST, route));
        }
        ["notices", "acknowledge"] => return Ok((Method::POST, Route::Acknowledge)),
        _ => return Err(RouteError::NotFound),
    };
    Ok((Method::GET, Route::Api(read)))
}

/// Returns whether a text can name a task and is no complete id. Other names, whose characters an
/// address would escape, have no address.
fn is_task_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty()
        && !text.starts_with('.')
        && text.bytes().all(is_plain)
        && text.parse::<TaskId>().is_err()
}

/// Parses a complete id.
fn parse_id(text: &str) -> Result<TaskId, RouteError> {
    text.parse().map_err(|_| RouteError::NotFound)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "b-4k7q0n2m8x5t";

    #[test]
    fn only_posts_change_something() {
        let id = ID.parse().expect("an id");
        let path = format!("/api/v1/tasks/{ID}/stop");
        assert_eq!(Route::parse(&Method::POST, &path), Ok(Route::Act(id, Act::Stop)));
        for method in [Method::GET, Method::HEAD, Method::PUT, Method::OPTIONS] {
            assert_eq!(Route::parse(&method, &path), Err(RouteError::WrongMethod), "{method}");
        }
        let page = format!("/tasks/{ID}");
        assert_eq!(Route::parse(&Method::POST, &page), Err(RouteError::WrongMethod));
        assert!(Route::parse(&Method::HEAD, &page).is_ok());
    }

    #[test]
    fn a_task_is_found_by_its_name() {
        let found = |path| Route::parse(&Method::GET, path);
        assert_eq!(found("/tasks/web-1.2"), Ok(Route::NamedTask("web-1.2")));
        assert_eq!(found("/tasks/b-4k7q"), Ok(Route::NamedTask("b-4k7q")));
        let id = ID.parse().expect("an id");
        let page = format!("/tasks/{ID}");
        assert_eq!(Route::parse(&Method::GET, &page), Ok(Route::Page(PageRoute::Task(id))));
        for path in ["/api/v1/tasks/web-1.2", "/api/v1/tasks/web-1.2/why"] {
            let named = Route::NamedApi { name: "web-1.2", effect: RequestEffect::Read };
            assert_eq!(found(path), Ok(named), "{path}");
        }
        let stop = "/api/v1/tasks/b-4k7q/stop";
        let named = Route::NamedApi { name: "b-4k7q", effect: RequestEffect::Change };
        assert_eq!(Route::parse(&Method::POST, stop), Ok(named));
        assert_eq!(found(stop), Err(RouteError::WrongMethod));
        assert_eq!(found("/api/v1/tasks/web/nothing"), Err(RouteError::NotFound));
        assert_eq!(found("/tasks/a%20b"), Err(RouteError::NotFound));
        assert_eq!(found("/tasks/"), Err(RouteError::NotFound));
    }

    #[test]
    fn a_path_is_not_normalized() {
        for path in [
            "",
            "//",
            "/assets/../api/v1/tasks",
            "/sign-in/..",
            "/%61pi/v1/tasks",
            "/tasks/b-4k7q0n2m8x5t/",
            "/tasks/..",
            "/api/v1/tasks/../stop",
        ] {
            let found = Route::parse(&Method::GET, path);
            assert!(
                matches!(found, Err(RouteError::NotFound))
                    || path.is_empty() && found == Ok(Route::Page(PageRoute::Overview)),
                "{path}: {found:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn a_route_that_reads_is_never_a_post(path in "/[a-z0-9/.%-]{0,40}") {
            if let Ok(route) = Route::parse(&Method::POST, &path) {
                prop_assert_eq!(route.effect(), RequestEffect::Change);
            }
            if let Ok(route) = Route::parse(&Method::GET, &path) {
                prop_assert_ne!(route.effect(), RequestEffect::Change);
            }
        }
    }
}
