//! The pages for a person. Every page is complete without scripts; scripts only keep it up to date
//! and carry out acts.

mod chrome;
mod command_history;
mod command_order;
mod doctor;
mod duration_chart;
mod format;
mod output;
mod overview;
mod processes;
mod screen;
mod sessions;
mod settings;
mod table;
mod task;
mod task_events;
mod task_row;
mod timeline;
mod workflows;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use maud::{Markup, html};
use siding_core::task::listing;
use siding_http::{AccessPolicy, ResponseBody};

use crate::access::Refusal;
use crate::context::WebContext;
use crate::query::Query;
use crate::response;
use crate::route::PageRoute;

use chrome::Page;
pub(crate) use output::output_lines;
pub(crate) use timeline::style_sheet as timeline_style_sheet;

/// Returns a page.
pub(crate) fn respond(
    context: &Arc<WebContext>,
    route: PageRoute,
    query: &Query,
) -> Response<ResponseBody> {
    // The id is read before the content of the page, so that a change in between is reported twice
    // instead of never.
    let last_event = context.feed.last_event_id();
    let complete =
        |page: Page| response::html_page(page.status(), chrome::wrap(context, &last_event, &page));
    // The pages read files, and the one about a task may ask its shim.
    let response = tokio::task::block_in_place(|| match route {
        PageRoute::Overview => Some(complete(overview::overview_page(context, query))),
        PageRoute::Task(id) => task::task_page(context, id, query).map(complete),
        PageRoute::Lines(id) => match output::fragment(context, id, query) {
            Ok(lines) => lines.map(|lines| response::html_page(StatusCode::OK, lines)),
            Err(message) => Some(response::json_error(StatusCode::BAD_REQUEST, &message)),
        },
        PageRoute::Screen(id) => {
            let section = screen::fragment(context, id);
            section.map(|section| response::html_page(StatusCode::OK, section))
        }
        PageRoute::Timeline => Some(complete(timeline::timeline_page(context, query))),
        PageRoute::Sessions => Some(complete(sessions::sessions_page(context))),
        PageRoute::Workflows => Some(complete(workflows::workflows_page(context))),
        PageRoute::Workflow(id) => workflows::workflow_page(context, id).map(complete),
        PageRoute::History => Some(complete(command_history::history_page(context, query))),
        PageRoute::Settings => Some(complete(settings::settings_page())),
        PageRoute::Doctor => Some(complete(doctor::doctor_page(context))),
        PageRoute::Download(id) => output::download(context, id),
    });
    response.unwrap_or_else(|| failure(StatusCode::NOT_FOUND, false))
}

/// Redirects to the page of the task with this name or with an id that begins with it, as the
/// commands resolve names.
pub(crate) fn redirect_to_task(context: &WebContext, name: &str) -> Response<ResponseBody> {
    let found = tokio::task::block_in_place(|| listing::resolve_id(&context.root, name));
    found.map_or_else(
        |_| failure(StatusCode::NOT_FOUND, false),
        |id| response::redirect(&format!("/tasks/{id}")),
    )
}

/// Returns the response to a refused request, as JSON for a program.
pub(crate) fn refusal(refusal: Refusal, is_api: bool) -> Response<ResponseBody> {
    if refusal == Refusal::CookieWithheld && !is_api {
        // The browser sends the cookie with a request that a page of this server causes.
        let link = html! { p { a href="" { "Open this page again" } } };
        return error_page(refusal.status(), refusal.text(), &link);
    }
    error_response(refusal.status(), refusal.text(), is_api)
}

/// Returns the response to a request of a program without a valid cookie or token. The script of a
/// page that is still open after a restart of the server also shows this message.
pub(crate) fn token_refusal(
    refusal: Refusal,
    headers: &HeaderMap,
    policy: &AccessPolicy,
) -> Response<ResponseBody> {
    let advice = policy.token_advice(headers);
    let text = if headers.contains_key(header::AUTHORIZATION) {
        advice
    } else {
        format!("{}; {advice}", refusal.text())
    };
    let mut refused = response::json_error(refusal.status(), &text);
    let wanted = HeaderValue::from_static("Bearer");
    refused.headers_mut().insert(header::WWW_AUTHENTICATE, wanted);
    refused
}

/// Returns the response to a request that failed.
pub(crate) fn failure(status: StatusCode, is_api: bool) -> Response<ResponseBody> {
    let text = match status {
        StatusCode::NOT_FOUND => "there is nothing at this address, or the task was removed",
        StatusCode::METHOD_NOT_ALLOWED => "this address does not accept the method of the request",
        _ => "the request failed",
    };
    error_response(status, text, is_api)
}

fn error_response(status: StatusCode, text: &str, is_api: bool) -> Response<ResponseBody> {
    if is_api { response::json_error(status, text) } else { error_page(status, text, &html! {}) }
}

/// Returns the response to a redeemed sign-in link, whose script stores the page key and opens the
/// list of tasks. The key is in no address, because browsers keep addresses in their history.
pub(crate) fn sign_in_page(page_key: Option<&str>) -> Response<ResponseBody> {
    let head = html! {
        link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
        noscript { meta http-equiv="refresh" content="0; url=/"; }
        script type="module" src="/assets/page-key.js" {}
    };
    let content = html! { p { a href="/" data-signed-in data-page-key=[page_key] { "Tasks" } } };
    bare_page(StatusCode::OK, "signed in", &head, &content)
}

/// Returns a page about an error, with further content below the text.
fn error_page(status: StatusCode, text: &str, more: &Markup) -> Response<ResponseBody> {
    let title = status.canonical_reason().unwrap_or("error");
    bare_page(status, title, &html! {}, &html! { p { (format::sentence(text)) } (more) })
}

/// Returns a page without the navigation, with further elements of its head.
fn bare_page(
    status: StatusCode,
    title: &str,
    head: &Markup,
    content: &Markup,
) -> Response<ResponseBody> {
    response::html_page(
        status,
        html! {
            (maud::DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { "siding: " (title) }
                    (head)
                }
                body { main { h1 { (title) } (content) } }
            }
        },
    )
}
