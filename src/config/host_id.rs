//! The section `host_id`: which provider says the host id, and what it needs.

use super::setting::{Key, settings};
use super::sources::Context;
use super::value::Choice;
use super::values::Values;
use crate::host_id::{
    DEFAULT_HOST_TYPE, Env, Exec, FromHostType, Functions, Kubernetes, Provider, StaticId, WebJobs,
};
use crate::lock::HostType;

/// Where the host id comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostIdSection {
    /// The provider, ready to be asked.
    pub provider: Provider,
    /// Whether a request may name another `host_id` or `host_type`. Default: true.
    pub allow_override: bool,
}

/// The providers' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    HostType,
    Static,
    WebJobs,
    Functions,
    Kubernetes,
    Env,
    Exec,
}

impl Choice for Name {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("host-type", Self::HostType),
        ("static", Self::Static),
        ("webjobs", Self::WebJobs),
        ("functions", Self::Functions),
        ("kubernetes", Self::Kubernetes),
        ("env", Self::Env),
        ("exec", Self::Exec),
    ];
}

settings! {
    PROVIDER: Name = Key::new(
        "host_id.provider",
        "host-type",
        "Where the host id comes from; see paths.md.",
    );
    HOST_TYPE: HostType = Key::found(
        "host_id.host_type",
        "`default`, with a warning, for the provider `host-type`; else none",
        |context| {
            let hashed = context.given(PROVIDER.setting.key).is_none_or(|name| name == "host-type");
            hashed.then(|| DEFAULT_HOST_TYPE.to_owned())
        },
        "The name of this kind of host. The provider `host-type` hashes it; for `static` and `exec` it is only stored with \
         locks, so that collisions are noticed.",
    );
    HOST_ID: crate::lock::HostId = Key::optional(
        "host_id.host_id",
        "The host id itself, for the provider `static`.",
    );
    HOST_NAME: HostType = Key::optional(
        "host_id.host_name",
        "The text that the WebJobs host hashes, for the provider `webjobs`: by default the full name of its assembly.",
    );
    SITE_NAME: String = Key::optional(
        "host_id.site_name",
        "The name of the Functions app's site, with `-` and the slot unless it is production, for the provider \
         `functions`.",
    );
    NAMESPACE: String = Key::found(
        "host_id.namespace",
        "the variable `POD_NAMESPACE`, for the provider `kubernetes`",
        |context| for_kubernetes(context, "POD_NAMESPACE"),
        "The pod's namespace, for the provider `kubernetes`.",
    );
    OWNER: String = Key::found(
        "host_id.owner",
        "the variable `POD_OWNER`, for the provider `kubernetes`",
        |context| for_kubernetes(context, "POD_OWNER"),
        "The name of what owns the pod (its Deployment, StatefulSet or CronJob), for the provider `kubernetes`.",
    );
    VARIABLE: String = Key::optional(
        "host_id.variable",
        "The name of the environment variable whose value is hashed, for the provider `env`.",
    );
    COMMAND: Vec<String> = Key::optional(
        "host_id.command",
        "The program that prints the host id, and its arguments, for the provider `exec`. It runs without a shell, for at \
         most 5 s.",
    );
    ALLOW_OVERRIDE: bool = Key::new(
        "host_id.allow_override",
        "true",
        "Whether a request may name another host id or host type. With rules of `access`, a rule must allow it too.",
    );
}

fn for_kubernetes(context: &Context<'_>, variable: &str) -> Option<String> {
    (context.given(PROVIDER.setting.key) == Some("kubernetes"))
        .then(|| context.variable(variable))
        .flatten()
}

pub(super) fn read(values: &mut Values<'_>) -> Option<HostIdSection> {
    if values.is_mistaken(PROVIDER.setting.key) {
        return None;
    }
    let name = values.value(&PROVIDER);
    refuse_unread(values, name);
    let provider = match name {
        Name::HostType => {
            Provider::HostType(FromHostType::new(values.require(&HOST_TYPE, "it is hashed")?))
        }
        Name::Static => {
            let host_id = values.require(&HOST_ID, "the host-id provider static needs it");
            Provider::Static(StaticId::new(host_id?, values.get(&HOST_TYPE)))
        }
        Name::WebJobs => {
            let host_name = values.require(&HOST_NAME, "the host-id provider webjobs hashes it");
            Provider::WebJobs(WebJobs::new(host_name?))
        }
        Name::Functions => {
            let site_name = values
                .require(&SITE_NAME, "the host-id provider functions derives the host id from it");
            Provider::Functions(Functions::new(site_name?))
        }
        Name::Kubernetes => {
            let reason = "the host-id provider kubernetes hashes it; usually POD_NAMESPACE and POD_OWNER are set in \
                          the pod";
            let (namespace, owner) =
                (values.require(&NAMESPACE, reason), values.require(&OWNER, reason));
            Provider::Kubernetes(Kubernetes::new(namespace?, owner?))
        }
        Name::Env => {
            let variable = values.require(&VARIABLE, "the host-id provider env reads it");
            Provider::Env(Env::new(variable?))
        }
        Name::Exec => exec(values)?,
    };
    Some(HostIdSection { provider, allow_override: values.get(&ALLOW_OVERRIDE)? })
}

fn exec(values: &mut Values<'_>) -> Option<Provider> {
    let command = values.require(&COMMAND, "the host-id provider exec runs it")?;
    let Some((program, arguments)) = command.split_first() else {
        values.bad(COMMAND.setting.key, None, "must name a program".to_owned());
        return None;
    };
    let host_type = values.get(&HOST_TYPE);
    Some(Provider::Exec(Exec::new(program.clone(), arguments.to_vec(), host_type)))
}

/// A setting for another provider would be ignored in silence, and locks would be somewhere else than
/// expected.
fn refuse_unread(values: &mut Values<'_>, name: Name) {
    let readers: [(&'static str, &[Name]); 8] = [
        (HOST_TYPE.setting.key, &[Name::HostType, Name::Static, Name::Exec]),
        (HOST_ID.setting.key, &[Name::Static]),
        (HOST_NAME.setting.key, &[Name::WebJobs]),
        (SITE_NAME.setting.key, &[Name::Functions]),
        (NAMESPACE.setting.key, &[Name::Kubernetes]),
        (OWNER.setting.key, &[Name::Kubernetes]),
        (VARIABLE.setting.key, &[Name::Env]),
        (COMMAND.setting.key, &[Name::Exec]),
    ];
    for (key, names) in readers.iter().filter(|(_, names)| !names.contains(&name)) {
        let readers: Vec<&str> = names.iter().map(|name| name.word()).collect();
        let why = format!(
            "is for the host-id provider {}, and host_id.provider is {}: change the provider, or remove the setting",
            readers.join(" or "),
            name.word()
        );
        values.refuse_unread(&PROVIDER.setting, &[key], &why);
    }
}
