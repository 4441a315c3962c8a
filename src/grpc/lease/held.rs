//! What happens to a hold, as both streams of the API tell it: the messages are the same, and their events
//! are not.

/// A [`HeldEvent`](crate::coordinator::HeldEvent) as an event of the stream whose events are `$Event`.
macro_rules! held {
    ($event:expr, $Event:ident) => {
        match $event {
            HeldEvent::Renewed(validity) => $Event::Renewed(proto::Renewed {
                validity: Some(to_proto::validity(validity)),
                ..proto::Renewed::default()
            }),
            HeldEvent::Extended(extended) => $Event::Renewed(proto::Renewed {
                validity: Some(to_proto::validity(extended.validity)),
                resume_token: extended.resume_token,
                max_hold_ends: extended.max_hold_ends.map(to_proto::deadline),
            }),
            HeldEvent::AtRisk { validity, kind, detail } => $Event::AtRisk(proto::AtRisk {
                validity: Some(to_proto::validity(validity)),
                cause: to_proto::cause(kind),
                detail,
            }),
            HeldEvent::Recovered(validity) => {
                $Event::Recovered(proto::Recovered { validity: Some(to_proto::validity(validity)) })
            }
            HeldEvent::Revoked { validity, break_note } => $Event::Revoked(proto::Revoked {
                validity: Some(to_proto::validity(validity)),
                break_note: break_note.map(to_proto::break_note),
            }),
            HeldEvent::Draining { time_left } => {
                $Event::Draining(proto::Draining { time_left: Some(to_proto::duration(time_left)) })
            }
            HeldEvent::Lost { reason, detail, break_note } => $Event::Lost(proto::Lost {
                reason: to_proto::loss_reason(reason).into(),
                detail,
                break_note: break_note.map(to_proto::break_note),
            }),
        }
    };
}

pub(in crate::grpc) use held;
