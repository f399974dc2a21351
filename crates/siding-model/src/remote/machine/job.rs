//! The decisions about a task that runs as a job in a cluster.

use super::{Actions, Hello, LinkPhase, MirrorAction, MirrorContext, MirrorMachine};
use crate::lifecycle::{Lifecycle, Phase, TaskEvent, TreeLiveness};
use crate::mirror::{JobEnd, JobStatus, RemoteEvent};
use crate::outcome::{LeaderEnd, LimitKind};
use crate::record::Record;
use crate::slurm::CLUSTER_REQUESTER;

impl MirrorMachine {
    /// Records a new status in the queue. The first status after a connection shows that the
    /// follower can receive requests, so a pending stop is sent.
    pub(super) fn on_queued(&mut self, context: MirrorContext<'_>, status: JobStatus) -> Actions {
        let (hello, since, is_new) = match std::mem::take(&mut self.phase) {
            LinkPhase::Opened { hello, .. } => (hello, context.monotonic, true),
            LinkPhase::Queued { hello, since } => (hello, since, false),
            LinkPhase::Followed { since } => (None, since, false),
            LinkPhase::Down => return Vec::new(),
        };
        self.has_installed = false;
        self.lost_at = None;
        self.phase = LinkPhase::Queued { hello, since };
        let remote = context.remote();
        let is_known = remote.queued.as_ref() == Some(&status) && remote.unreachable.is_none();
        let event = RemoteEvent::Queued { at: context.now(), status };
        let mut actions = Vec::new();
        if !is_known {
            actions.push(MirrorAction::Record(vec![Record::Remote(event)]));
        }
        if is_new {
            actions.extend(self.forward_pending_stop(remote));
        }
        actions
    }

    /// Replaces the name and the clocks of the submitting machine with those of the node that runs
    /// the job.
    pub(super) fn on_node(&mut self, node: Hello) -> Actions {
        match &mut self.phase {
            LinkPhase::Opened { hello, .. } | LinkPhase::Queued { hello, .. } => {
                *hello = Some(node);
            }
            LinkPhase::Down | LinkPhase::Followed { .. } => {}
        }
        Vec::new()
    }

    /// Begins a new attempt of the job. The records that ended the earlier attempt do not end the
    /// task.
    pub(super) fn on_requeued(
        &mut self,
        context: MirrorContext<'_>,
        attempt: u32,
        why: String,
    ) -> Actions {
        self.ending = Vec::new();
        if let LinkPhase::Followed { since } = self.phase {
            self.phase = LinkPhase::Queued { hello: None, since };
        }
        let output_bytes = context.output_bytes;
        let event = RemoteEvent::Requeued { at: context.now(), attempt, output_bytes, why };
        vec![MirrorAction::Record(vec![Record::Remote(event)])]
    }

    /// Ends a task as the cluster reports it. Records that end the task take precedence if they
    /// have arrived, and only the summary is missing.
    pub(super) fn on_job_ended(&mut self, context: MirrorContext<'_>, end: JobEnd) -> Actions {
        if !self.ending.is_empty() {
            return self.end_without_summary(context);
        }
        self.phase = LinkPhase::Down;
        let now = context.now();
        let mut lifecycle = context.state.lifecycle.clone();
        let mut actions = vec![MirrorAction::Disconnect { retry_at_once: false }];
        let mut ending = None;
        let (events, why) = match end {
            JobEnd::Cancelled { by } => {
                let by = context.remote().pending_stop.map_or(by, |stop| stop.by);
                let stop = TaskEvent::StopAsked { by, grace_ms: Some(0), signal: None };
                (vec![stop], "the job was canceled".to_owned())
            }
            JobEnd::TimeLimit => {
                // A foreground task of a person has no deadline yet, and `DeadlinePassed` would
                // change nothing.
                let counted = Record::Remote(RemoteEvent::DeadlineCounted { at: now });
                actions.push(MirrorAction::Record(vec![counted]));
                lifecycle = lifecycle.with_deadline_from(now);
                let by = Some(CLUSTER_REQUESTER.to_owned());
                let moved = TaskEvent::Extended { deadline: now, by, job_limit: None };
                let why = "the time limit of the job passed".to_owned();
                (vec![moved, TaskEvent::DeadlinePassed], why)
            }
            JobEnd::OutOfMemory => {
                let limit = TaskEvent::LimitPassed { limit_kind: LimitKind::Memory };
                (vec![limit], "the job exceeded its memory".to_owned())
            }
            JobEnd::NotStarted { why } => {
                (vec![TaskEvent::SpawnFailed { error: why.clone(), errno: 0 }], why)
            }
            JobEnd::Lost { why } => (Vec::new(), why),
        };
        // All events have the time of this decision. A deadline that was moved to `now` would be in
        // the past a moment later, and a lifecycle rejects such a deadline.
        let mut records = Vec::new();
        for event in events {
            let (next, effects) = lifecycle.step(&event, now);
            if next.is_ended() && !lifecycle.is_ended() {
                ending = Some(event);
            } else if !effects.is_empty() {
                records.push(Record::Event { at: now, event });
            }
            lifecycle = next;
        }
        if !records.is_empty() {
            actions.push(MirrorAction::Record(records));
        }
        let ending = ending.unwrap_or_else(|| final_event(&lifecycle, why));
        actions.push(MirrorAction::RecordEvent(ending));
        actions
    }
}

/// Returns the event that ends a task whose processes have disappeared with their job.
fn final_event(lifecycle: &Lifecycle, why: String) -> TaskEvent {
    match lifecycle.phase() {
        // `Vanished` would give a task that was stopped before it was spawned the outcome `lost`.
        Phase::Starting { stop: Some(_) } => TaskEvent::LeaderEnded {
            end: LeaderEnd::Unknown { why },
            tree: TreeLiveness::Empty,
            final_cwd: None,
            pipeline: None,
        },
        Phase::Starting { stop: None }
        | Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. }
        | Phase::Ended { .. } => TaskEvent::Vanished { why },
    }
}
