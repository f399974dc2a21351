//! Notices: what a session is told about its tasks, once each.
//!
//! Owns which records of a journal are news ([`TaskNotices`]), the names of notices ([`NoticeId`]), their
//! order ([`Priority`]) and their two forms, [`NoticeView`] and [`xml()`]. A notice is never stored:
//! it is read out of the journal, so nothing can disagree with it. What is stored is only who has
//! been told (siding-core).
//!
//! A text of a task is data. It is shown escaped, and no notice reuses a name that a task chose.

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
