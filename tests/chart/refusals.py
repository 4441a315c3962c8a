"""Values that have to be refused, each with a part of what has to be said about it.

Values are JSON, by their paths; `BASE` comes before them.
"""

BASE = {"app.image": '"keeper:1"'}
AZURE = {"store.kind": '"azure"', "store.azure.account": '"ordersprod"', "store.azure.clientId": '"0-1"'}
SECRET = {
    "store.kind": '"azure"',
    "store.azure.signIn": '"sas_url"',
    "store.azure.existingSecret": '{"name": "storage", "key": "sas"}',
}
STANDALONE = {**AZURE, "mode": '"standalone"', "app.image": '""', "standalone.tls.existingSecret": '"server"'}

# What values.schema.json says: single values that are wrong, and keys that are not known.
BY_SCHEMA = [
    ({"hosttype": '"x"'}, "hosttype"),
    ({"store.azure.connectionString": '"x"'}, "connectionString"),
    ({"app.replica": "2"}, "replica"),
    ({"app.replicas": '"two"'}, "integer"),
    ({"mode": '"library"'}, "'standalone'"),
    ({"app.kind": '"DaemonSet"'}, "'CronJob'"),
    ({"store.kind": '"memory"'}, "'embedded'"),
    ({"locks.leaseDuration": '"30"'}, "pattern"),
    ({"locks.leaseDuration": "30"}, "string"),
    ({"drain.period": '"soon"'}, "pattern"),
    ({"hostId.id": '"Upper"'}, "pattern"),
    ({"paths.container": '"-x-"'}, "pattern"),
    ({"store.azure.account": '"Not-An-Account"'}, "pattern"),
    ({"listen.folder": '"relative"'}, "pattern"),
    ({"listen.port": "80"}, "1,024"),
    ({"image.tag": '"a b"'}, "pattern"),
    ({"image.digest": '"sha256:short"'}, "pattern"),
    ({"sidecar.settings": '{"locks": {"x": 1}}'}, "locks"),
    ({"sidecar.runAsUser": "0"}, "minimum"),
    ({"app.installProgram.folder": '"bin"'}, "pattern"),
    ({"metrics.rules.severities.LeaseholdBored": '"page"'}, "LeaseholdBored"),
    ({"metrics.rules.selector": '"{job=locks}"'}, "pattern"),
]

# What _validate.tpl says: values that contradict each other.
BY_TEMPLATE = [
    ({"app.image": '""'}, "set app.image"),
    ({"app.replicas": "2"}, "set store.kind=azure, or app.replicas=1"),
    ({"app.kind": '"Job"', "app.job.parallelism": "2"}, "or app.job.parallelism=1"),
    ({"store.azure.account": '"ordersprod"'}, "set store.kind=azure"),
    ({**AZURE, "store.azure.account": '""'}, "set store.azure.account"),
    ({**AZURE, "store.azure.clientId": '""'}, "set store.azure.clientId"),
    ({**AZURE, "store.azure.existingSecret.name": '"storage"'}, "has no effect with signIn=workload_identity"),
    ({**AZURE, "serviceAccount.create": "false"}, "set serviceAccount.name"),
    ({**AZURE, "store.azure.signIn": '"managed_identity"', "store.azure.tenantId": '"0-2"'}, "tenantId has no effect"),
    ({**SECRET, "store.azure.existingSecret.key": '""'}, "set store.azure.existingSecret.name and .key"),
    ({**SECRET, "store.azure.account": '"ordersprod"'}, "leave them out"),
    ({**SECRET, "store.azure.clientId": '"0-1"'}, "clientId and tenantId have no effect"),
    ({"hostId.provider": '"static"'}, "needs hostId.id"),
    ({"hostId.provider": '"webjobs"'}, "needs hostId.hostName"),
    ({"hostId.provider": '"functions"'}, "needs hostId.siteName"),
    ({"hostId.siteName": '"x"'}, "is for hostId.provider=functions"),
    ({"hostId.owner": '"x"'}, "is for hostId.provider=kubernetes"),
    ({"hostId.provider": '"kubernetes"', "hostType": '"x"'}, "leave hostType out"),
    ({"locks.leaseDuration": '"61s"'}, "15s to 60s"),
    ({"locks.leaseDuration": '"14s"'}, "15s to 60s"),
    ({"locks.leaseDuration": '"15s 500ms"'}, "whole seconds"),
    ({"locks.leaseDuration": '"15s"', "locks.handOff": '"8s"'}, "at most half"),
    ({"locks.pollCap": '"2m"'}, "250ms to 1m"),
    ({"drain.period": '"56s"'}, "make it at least 5 s longer"),
    ({"terminationGracePeriodSeconds": "24"}, "make it at least 5 s longer"),
    ({"app.kind": '"Job"', "sidecar.native": "false"}, "would never end"),
    ({"app.kind": '"CronJob"'}, "needs app.cronJob.schedule"),
    ({"app.cronJob.schedule": '"0 3 * * *"'}, "is for app.kind=CronJob"),
    ({"app.podDisruptionBudget.enabled": "true"}, "2 or more"),
    ({**STANDALONE, "standalone.tls.existingSecret": '""'}, "set standalone.tls.existingSecret"),
    (
        {"mode": '"standalone"', "app.image": '""', "standalone.tls.existingSecret": '"server"'},
        "store.kind=embedded keeps locks in the one pod",
    ),
    ({**STANDALONE, "app.image": '"keeper:1"'}, "app.image is for mode=app"),
    ({**STANDALONE, "sidecar.native": "false"}, "no effect in mode=standalone"),
    ({"standalone.testClientSecret": '"client"'}, "standalone is for mode=standalone"),
    ({"metrics.podMonitor.enabled": "true"}, "set metrics.enabled=true"),
    ({"metrics.rules.enabled": "true"}, "set metrics.enabled=true"),
    ({"metrics.enabled": "true", "metrics.rules.enabled": "true"}, "or metrics.rules.selector"),
    ({**AZURE, "mode": '"templates"', "app.image": '""'}, "list their names in store.azure.skipContainers"),
    (
        {**AZURE, "store.azure.shareIdentityWithApp": "true", "store.azure.skipContainers": '["proxy"]'},
        "no effect with shareIdentityWithApp=true",
    ),
    ({"listen.direct": "true"}, "mode=standalone, and the mode is app"),
    ({"listen.allowedUids": "[10001]", "sidecar.runAsUser": "null"}, "set sidecar.runAsUser"),
    (
        {**AZURE, "networkPolicy.enabled": "true", "networkPolicy.storeTo": '[{"ipBlock": {"cidr": "10.1.2.3/32"}}]'},
        "set networkPolicy.signInTo",
    ),
    ({**STANDALONE, "app.installProgram.enabled": "true"}, "are for your application's pod"),
    ({"networkPolicy.metricsFrom": '[{"podSelector": {}}]'}, "without metrics.enabled=true"),
    ({"admin.port": "50951"}, "both 50951"),
    ({"sidecar.settings": '{"store.azure.sas_url": "x"}'}, "a secret"),
    ({"sidecar.settings": '{"locks.poll_cap": "1s"}'}, "a value of its own"),
    ({"sidecar.extraEnv": '[{"name": "LEASEHOLD_LOG_FORMAT", "value": "json"}]'}, "use sidecar.settings"),
]
