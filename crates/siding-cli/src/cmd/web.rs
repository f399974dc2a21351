//! `siding web`: serves a page that shows what runs.

use std::net::SocketAddr;
use std::process::{Command, ExitCode, Stdio};

use siding_http::TokenLocation;
use siding_web::{WebError, WebMessage, WebOptions};

use super::schema;
use crate::caller;
use crate::context::{self, SHIM_PROGRAM};
use crate::failure::Failure;
use crate::stdout;

/// The program that shows an address in the user's browser, if `BROWSER` names no other one.
const BROWSER_PROGRAM: &str = "xdg-open";

/// Serves a page in which a person sees tasks and their output, and JSON for programs.
///
/// The page shows the tasks that need a person, those that run and those that have ended, with
/// output, processes, usage, events, notices and history, a timeline and the workflows. Without
/// --control it changes nothing. Open it with the link that is printed; each link signs one browser
/// in. Only processes of this user are served.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding web --open                  in your browser
  siding web --control               with stop, extend, input, release, typing
  siding web --addr 127.0.0.1:7500   at a fixed port
  siding web --metrics               with /metrics for Prometheus

For a server on another machine forward the port: ssh -L 7500:127.0.0.1:7500.
Programs send the token in $SIDING_WEB_TOKEN, or the one in the printed file,
in the header `Authorization: Bearer TOKEN`. GET /api/v1/openapi.json describes
their requests.")]
pub(crate) struct Args {
    /// Address to listen on; port 0 chooses a free port
    #[arg(
        long,
        value_name = "ADDR",
        default_value = "127.0.0.1:0",
        value_parser = super::parse_listen_address
    )]
    addr: SocketAddr,
    /// Allow stop, extend, input, release, typing into terminals and the acknowledgement of notices
    ///
    /// A browser types as a person if a person has started this command at a terminal, and has
    /// opened a link that is printed there. With the output in a file or a pipe, and in the browser
    /// that --open starts, the keys are an agent's.
    #[arg(long)]
    control: bool,
    /// Let every program of yours read /metrics, without the token
    ///
    /// For a scraper such as Prometheus on this machine. The metrics are numbers without a command,
    /// a path or an id of a task. Programs of other users are refused, and so are web pages.
    #[arg(long, conflicts_with = "allow_remote")]
    metrics: bool,
    /// Open the page in your browser
    #[arg(long)]
    open: bool,
    /// Accept connections from other machines; ADDR need not be a loopback address
    #[arg(long)]
    allow_remote: bool,
    /// Host name that browsers may use, in addition to those of loopback; may be repeated
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        // Tasks whose shims were killed would otherwise appear as running. A repair that failed is
        // reported, and the page shows the other tasks.
        let _logged_by_callee = context::recover_all(&root)?;
        let options = WebOptions {
            address: self.addr,
            allow_remote: self.allow_remote,
            allowed_hosts: self.allow_host,
            control: self.control,
            is_person: caller::is_person_outside_tasks_at_stdout(),
            open_metrics: self.metrics,
            settings: context::load_settings()?,
            program: SHIM_PROGRAM,
            schemas: schema::output_definitions,
        };
        let open = self.open;
        siding_web::serve(root, options, move |message| report(message, open))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn report(message: WebMessage<'_>, open: bool) {
    let text = match message {
        WebMessage::Started { link, browser_link, token } => {
            if open {
                open_browser(browser_link);
            }
            format!("open {link}\n{}\n", format_token_line(token))
        }
        WebMessage::SignedIn { link } => {
            format!("a browser has signed in; for another one open {link}\n")
        }
    };
    // The server continues if standard output is closed.
    let _peer_gone = stdout::print_text(&text);
}

/// Says where programs find the token. The token itself is not printed, because the output of this
/// command may be the output of a task.
fn format_token_line(token: Option<TokenLocation<'_>>) -> String {
    match token {
        Some(TokenLocation::Variable(name)) => format!("token for programs: the value of {name}"),
        Some(TokenLocation::File(path)) => format!("token for programs: in {}", path.display()),
        None => format!("no token for programs; set {} to have one", siding_web::TOKEN_VARIABLE),
    }
}

/// Shows a link in the user's browser. The link is also printed, so a missing browser is only
/// reported.
fn open_browser(link: &str) {
    let program = std::env::var("BROWSER").ok().filter(|name| !name.is_empty());
    let program = program.unwrap_or_else(|| BROWSER_PROGRAM.to_owned());
    let started = Command::new(&program)
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match started {
        // The thread waits for the program, so that it does not remain as a zombie.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(error) => {
            errln!("siding: could not start `{program}`: {error}; open the link yourself")
        }
    }
}

impl From<WebError> for Failure {
    fn from(error: WebError) -> Self {
        Self::new(error)
    }
}
