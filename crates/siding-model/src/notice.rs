//! Notices: the events of a session's tasks. Every consumer of the session receives a notice until
//! the consumer has acknowledged it, or the notice has expired.
//!
//! Owns the selection of journal records that are notices ([`TaskNotices`]), the ids of notices
//! ([`NoticeId`]), their order ([`Priority`]) and their two forms, [`NoticeView`] and
//! [`format_notice_xml`]. A notice is extracted from the journal whenever it is needed, so it
//! cannot disagree with the journal. siding-core stores only which notices were acknowledged.
//!
//! Text from a task is data: it is escaped wherever it is shown, and a task cannot choose the name
//! of a field.

mod coverage;
mod delivery;
mod extract;
mod id;
mod person;
mod priority;
mod text;
mod view;
mod xml;

pub use coverage::Coverage;
pub use delivery::{DeliveryStatus, MAX_DELIVERY_TIME, next_retry_delay, parse_retry_after};
pub use extract::{Notice, NoticeEvent, NoticeKind, StallCertainty, TaskNotices};
pub use id::{BadConsumer, BadNoticeId, Consumer, NoticeId};
pub use person::needs_person;
pub use priority::Priority;
pub use view::{MAX_SUMMARY_BYTES, NoticeOutput, NoticeStatus, NoticeView};
pub use xml::{NOTICE_DISCLAIMER, format_notice_xml, format_teammate_xml};
