//! Notices: what a session is told about its tasks, once each.
//!
//! Owns which records of a journal are news ([`Story`]), the names of notices ([`NoticeId`]), their
//! order ([`Priority`]) and their two forms, [`NoticeView`] and [`xml()`]. A notice is never stored:
//! it is read out of the journal, so nothing can disagree with it. What is stored is only who has
//! been told (siding-core).
//!
//! A text of a task is data. It is shown escaped, and no notice reuses a name that a task chose.

mod delivery;
mod id;
mod order;
mod person;
mod shown;
mod story;
mod view;
mod words;
mod xml;

pub use delivery::{Answer, DELIVERY_MAX, next_try, retry_after};
pub use id::{BadConsumer, BadNoticeId, Consumer, NoticeId};
pub use order::Priority;
pub use person::needs_person;
pub use shown::Shown;
pub use story::{Certainty, Kind, News, Notice, Story};
pub use view::{NoticeOutput, NoticeView, SUMMARY_MAX, Status};
pub use xml::{NOTE, teammate_xml, xml};
