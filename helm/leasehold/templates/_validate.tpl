{{/*
Refuses values that contradict each other, all of them at once, each with what to do. What a single value may be is
said by values.schema.json. Every template that installs something includes it.
*/}}
{{- define "leasehold.validate" -}}
{{- $problems := concat
      (include "leasehold.validate.store" . | fromYamlArray)
      (include "leasehold.validate.hostId" . | fromYamlArray)
      (include "leasehold.validate.durations" . | fromYamlArray)
      (include "leasehold.validate.app" . | fromYamlArray)
      (include "leasehold.validate.schedule" . | fromYamlArray)
      (include "leasehold.validate.sharing" . | fromYamlArray)
      (include "leasehold.validate.standalone" . | fromYamlArray)
      (include "leasehold.validate.metrics" . | fromYamlArray)
      (include "leasehold.validate.network" . | fromYamlArray)
      (include "leasehold.validate.settings" . | fromYamlArray) -}}
{{- if $problems -}}
{{- fail (printf "\n\nthe values of %s contradict each other:\n  - %s\n" .Release.Name (join "\n  - " $problems)) -}}
{{- end -}}
{{- end -}}

{{- define "leasehold.validate.store" -}}
{{- $p := list -}}
{{- $a := .Values.store.azure -}}
{{- $azure := eq .Values.store.kind "azure" -}}
{{- $bySecret := include "leasehold.usesSecret" . -}}
{{- if not $azure -}}
{{- if or $a.account $a.endpoint $a.clientId $a.existingSecret.name -}}
{{- $p = append $p "store.azure is set, but store.kind is embedded, which keeps locks in the pod: set store.kind=azure" -}}
{{- end -}}
{{- else -}}
{{- $namesAccount := has $a.signIn (list "connection_string" "sas_url") -}}
{{- if and $namesAccount (or $a.account $a.endpoint) -}}
{{- $p = append $p (printf "store.azure.account and store.azure.endpoint are part of what signIn=%s reads from the Secret: leave them out" $a.signIn) -}}
{{- end -}}
{{- if not (or $namesAccount $a.account) -}}
{{- $p = append $p (printf "store.azure.signIn=%s needs the storage account's name: set store.azure.account" $a.signIn) -}}
{{- end -}}
{{- if and $bySecret (not (and $a.existingSecret.name $a.existingSecret.key)) -}}
{{- $p = append $p (printf "store.azure.signIn=%s reads a Secret: set store.azure.existingSecret.name and .key" $a.signIn) -}}
{{- end -}}
{{- if and (not $bySecret) $a.existingSecret.name -}}
{{- $p = append $p (printf "store.azure.existingSecret has no effect with signIn=%s: leave it out, or set signIn to connection_string, sas_url or account_key" $a.signIn) -}}
{{- end -}}
{{- if and $bySecret (or $a.clientId $a.tenantId) -}}
{{- $p = append $p (printf "store.azure.clientId and tenantId have no effect with signIn=%s: leave them out" $a.signIn) -}}
{{- end -}}
{{- if include "leasehold.usesWorkloadIdentity" . -}}
{{- if and .Values.serviceAccount.create (not $a.clientId) -}}
{{- $p = append $p "workload identity needs the identity's client id for the service account's annotation: set store.azure.clientId" -}}
{{- end -}}
{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) -}}
{{- $p = append $p "workload identity needs a service account that is federated with the identity: set serviceAccount.name, or serviceAccount.create=true" -}}
{{- end -}}
{{- if and (eq .Values.mode "templates") (not $a.shareIdentityWithApp) (not $a.skipContainers) -}}
{{- $p = append $p "the containers of your pod would get the identity's token: list their names in store.azure.skipContainers, or set store.azure.shareIdentityWithApp=true" -}}
{{- end -}}
{{- if and $a.shareIdentityWithApp $a.skipContainers -}}
{{- $p = append $p "store.azure.skipContainers has no effect with shareIdentityWithApp=true: leave one of them out" -}}
{{- end -}}
{{- else if and $a.tenantId (eq $a.signIn "managed_identity") -}}
{{- $p = append $p "store.azure.tenantId has no effect with signIn=managed_identity: leave it out" -}}
{{- end -}}
{{- end -}}
{{- toYaml $p -}}
{{- end -}}

{{- define "leasehold.validate.hostId" -}}
{{- $p := list -}}
{{- $h := .Values.hostId -}}
{{- $wanted := dict "static" "id" "webjobs" "hostName" "functions" "siteName" -}}
{{- range $provider, $field := $wanted -}}
{{- if and (eq $h.provider $provider) (not (get $h $field)) -}}
{{- $p = append $p (printf "hostId.provider=%s needs hostId.%s" $provider $field) -}}
{{- end -}}
{{- if and (ne $h.provider $provider) (get $h $field) -}}
{{- $p = append $p (printf "hostId.%s is for hostId.provider=%s, and the provider is %s" $field $provider $h.provider) -}}
{{- end -}}
{{- end -}}
{{- if and $h.owner (ne $h.provider "kubernetes") -}}
{{- $p = append $p (printf "hostId.owner is for hostId.provider=kubernetes, and the provider is %s" $h.provider) -}}
{{- end -}}
{{- if and .Values.hostType (not (has $h.provider (list "host-type" "static"))) -}}
{{- $p = append $p (printf "hostType is for hostId.provider=host-type or static, and the provider is %s, which derives one itself: leave hostType out" $h.provider) -}}
{{- end -}}
{{- toYaml $p -}}
{{- end -}}

{{- define "leasehold.validate.durations" -}}
{{- $p := list -}}
{{- $lease := include "leasehold.milliseconds" .Values.locks.leaseDuration | int64 -}}
{{- $handOff := include "leasehold.milliseconds" .Values.locks.handOff | int64 -}}
{{- $pollCap := include "leasehold.milliseconds" .Values.locks.pollCap | int64 -}}
{{- $drain := include "leasehold.milliseconds" .Values.drain.period | int64 -}}
{{- $grace := mul 1000 (int64 .Values.terminationGracePeriodSeconds) -}}
{{- if or (lt $lease 15000) (gt $lease 60000) (ne (mod $lease 1000) 0) -}}
{{- $p = append $p (printf "locks.leaseDuration is %s: a lease lasts 15s to 60s, in whole seconds" .Values.locks.leaseDuration) -}}
{{- end -}}
{{- if gt (mul 2 $handOff) $lease -}}
{{- $p = append $p (printf "locks.handOff is %s: at most half of locks.leaseDuration, which is %s" .Values.locks.handOff .Values.locks.leaseDuration) -}}
{{- end -}}
{{- if or (lt $pollCap 250) (gt $pollCap 60000) -}}
{{- $p = append $p (printf "locks.pollCap is %s: from 250ms to 1m" .Values.locks.pollCap) -}}
{{- end -}}
{{- if lt $grace (add $drain 5000) -}}
{{- $p = append $p (printf "terminationGracePeriodSeconds is %d and drain.period %s: the pod would be killed while it drains, and its locks would stay unavailable until their leases expire; make it at least 5 s longer than the drain" (int .Values.terminationGracePeriodSeconds) .Values.drain.period) -}}
{{- end -}}
{{- toYaml $p -}}
{{- end -}}

{{- define "leasehold.validate.app" -}}
{{- $p := list -}}
{{- $app := .Values.app -}}
{{- if eq .Values.mode "app" -}}
{{- $replicated := has $app.kind (list "Deployment" "StatefulSet") -}}
{{- $periodic := has $app.kind (list "Job" "CronJob") -}}
{{- if not $app.image -}}
{{- $p = append $p "mode=app runs your application: set app.image (or mode=standalone, or mode=templates)" -}}
{{- end -}}
{{- if and (eq .Values.store.kind "embedded") $replicated (gt (int $app.replicas) 1) -}}
{{- $p = append $p (printf "store.kind=embedded keeps locks in each pod, so that app.replicas=%d would all hold the lock at once: set store.kind=azure, or app.replicas=1" (int $app.replicas)) -}}
{{- end -}}
{{- if and (eq .Values.store.kind "embedded") $periodic (gt (int $app.job.parallelism) 1) -}}
{{- $p = append $p (printf "store.kind=embedded keeps locks in each pod, so that app.job.parallelism=%d would all hold the lock at once: set store.kind=azure, or app.job.parallelism=1" (int $app.job.parallelism)) -}}
{{- end -}}
{{- if and $periodic (not .Values.sidecar.native) -}}
{{- $p = append $p (printf "sidecar.native=false in a %s: the plain container would never end, nor would the Job; leave sidecar.native=true" $app.kind) -}}
{{- end -}}
{{- if and (eq $app.kind "CronJob") (not $app.cronJob.schedule) -}}
{{- $p = append $p "app.kind=CronJob needs app.cronJob.schedule" -}}
{{- end -}}
{{- if and (ne $app.kind "CronJob") $app.cronJob.schedule -}}
{{- $p = append $p (printf "app.cronJob.schedule is for app.kind=CronJob, and the kind is %s" $app.kind) -}}
{{- end -}}
{{- if $app.podDisruptionBudget.enabled -}}
{{- if not (and $replicated (gt (int $app.replicas) 1)) -}}
{{- $p = append $p "app.podDisruptionBudget is for a Deployment or StatefulSet with app.replicas of 2 or more: with one pod it protects nothing or blocks the draining of nodes" -}}
{{- end -}}
{{- end -}}
{{- else if $app.image -}}
{{- $p = append $p (printf "app.image is for mode=app, and the mode is %s" .Values.mode) -}}
{{- end -}}
{{- if and (eq .Values.mode "templates") (eq .Values.store.kind "embedded") (not .Values.store.onePod) -}}
{{- $p = append $p "store.kind=embedded keeps locks in each pod, and with mode=templates the chart cannot see how many pods there are: all of them would hold the lock at once. Set store.kind=azure, or store.onePod=true if there is never more than one" -}}
{{- end -}}
{{- if and .Values.store.onePod (or (ne .Values.mode "templates") (ne .Values.store.kind "embedded")) -}}
{{- $p = append $p "store.onePod is for mode=templates with store.kind=embedded: leave it out" -}}
{{- end -}}
{{- toYaml $p -}}
{{- end -}}

{{- define "leasehold.validate.schedule" -}}
{{- $p := list -}}
{{- $app := .Values.app -}}
{{- $s := $app.schedule -}}
{{- if not $s.expression -}}
{{- if or $s.function $s.timeZone -}}
{{- $p = append $p "app.schedule needs app.schedule.expression, which says when the command is run" -}}
{{- end -}}
{{- else -}}
{{- if eq .Values.mode "standalone" -}}
{{- $p = append $p "app.schedule is for your application's pod, and mode=standalone runs none: run `leasehold every` in a pod of your own (docs/kubernetes.md), or set mode=app" -}}
{{- end -}}
{{- if not $s.function -}}
{{- $p = append $p "app.schedule.expression needs a name for the schedule's lock: set app.schedule.function" -}}
{{- end -}}
{{- if and (ne .Values.mode "standalone") (not $app.command) -}}
{{- $p = append $p "app.schedule.expression needs to know what is run: set app.command to the image's entry point" -}}
{{- end -}}
{{- if and (eq .Values.mode "app") (not (has $app.kind (list "Deployment" "StatefulSet"))) -}}
{{- $p = append $p (printf "app.schedule.expression is for pods that stay and wait for the next time, and app.kind=%s starts pods of its own: set app.kind=Deployment" $app.kind) -}}
{{- end -}}
{{- end -}}
{{- toYaml $p -}}
{{- end -}}

{{- define "leasehold.validate.sharing" -}}
{{- $p := list -}}
{{- $s := .Values.sharing -}}
{{- if not $s.enabled -}}
{{- if or $s.priority $s.share $s.rebalance -}}
{{- $p = append $p "sharing is set, but nothing is told the application: set sharing.enabled=true" -}}
{{- end -}}
{{- else -}}
{{- if eq .Values.mode "standalone" -}}
{{- $p = append $p "sharing is for your application's pod, and mode=standalone runs none: set LEASEHOLD_PRIORITY and LEASEHOLD_SHARE in your pods, or set mode=app" -}}
{{- end -}}
{{- if and $s.rebalance (not $s.yields) -}}
{{- $p = append $p "sharing.rebalance needs sharing.yields: who takes locks from others must give them up to others" -}}
{{- end -}}
{{- if .Values.app.schedule.expression -}}
{{- $p = append $p "sharing has no effect with app.schedule, whose runs have no priority: leave it out" -}}
{{- end -}}
{{- if and (eq .Values.mode "app") (eq .Values.app.kind "Job") (not $s.priority) -}}
{{- $p = append $p "sharing.priority would be the release's revision, so that each upgrade changed the Job and ran it again: set sharing.priority" -}}
{{- end -}}
{{- end -}}
{{- toYaml $p -}}
{{- end -}}

{{- define "leasehold.validate.standalone" -}}
{{- $p := list -}}
{{- $s := .Values.standalone -}}
{{- if eq .Values.mode "standalone" -}}
{{- if not $s.tls.existingSecret -}}
{{- $p = append $p "mode=standalone is reached over the network, where only client certificates keep strangers from acquiring and releasing locks: set standalone.tls.existingSecret" -}}
{{- end -}}
{{- if eq .Values.store.kind "embedded" -}}
{{- $p = append $p "store.kind=embedded keeps locks in the one pod, and mode=standalone is called from other pods, whose locks would be deleted with that pod: set store.kind=azure, or mode=app" -}}
{{- end -}}
{{- if not .Values.sidecar.native -}}
{{- $p = append $p "sidecar.native has no effect in mode=standalone: leave it out" -}}
{{- end -}}
{{- if or .Values.app.installProgram.enabled .Values.serviceAccount.automountToken -}}
{{- $p = append $p "app.installProgram and serviceAccount.automountToken are for your application's pod, and mode=standalone runs none: leave them out" -}}
{{- end -}}
{{- else if or $s.tls.existingSecret $s.tls.clientCaSecret $s.tls.crlSecret $s.testClientSecret $s.access -}}
{{- $p = append $p (printf "standalone is for mode=standalone, and the mode is %s" .Values.mode) -}}
{{- end -}}
{{- toYaml $p -}}
{{- end -}}

{{- define "leasehold.validate.metrics" -}}
{{- $p := list -}}
{{- $m := .Values.metrics -}}
{{- if and $m.podMonitor.enabled (not $m.enabled) -}}
{{- $p = append $p "metrics.podMonitor reads /metrics over the network: set metrics.enabled=true" -}}
{{- end -}}
{{- if and $m.rules.enabled (not $m.enabled) -}}
{{- $p = append $p "metrics.rules are about metrics that nobody could read: set metrics.enabled=true" -}}
{{- end -}}
{{- if and $m.rules.enabled (not $m.podMonitor.enabled) (not $m.rules.selector) -}}
{{- $p = append $p "metrics.rules finds this release's pods by labels that the PodMonitor gives to their metrics: set metrics.podMonitor.enabled=true, or metrics.rules.selector" -}}
{{- end -}}
{{- if eq (int .Values.admin.port) (int .Values.listen.port) -}}
{{- $p = append $p (printf "admin.port and listen.port are both %d" (int .Values.admin.port)) -}}
{{- end -}}
{{- if and .Values.networkPolicy.metricsFrom (not $m.enabled) -}}
{{- $p = append $p "networkPolicy.metricsFrom has no effect without metrics.enabled=true" -}}
{{- end -}}
{{- toYaml $p -}}
{{- end -}}

{{- define "leasehold.validate.network" -}}
{{- $p := list -}}
{{- $policy := .Values.networkPolicy -}}
{{- if and .Values.listen.direct (ne .Values.mode "standalone") -}}
{{- $p = append $p (printf "listen.direct is about callers over the network, mode=standalone, and the mode is %s: leave it out" .Values.mode) -}}
{{- end -}}
{{- if and .Values.listen.allowedUids (not (include "leasehold.hasSocket" .)) -}}
{{- $p = append $p "listen.allowedUids is for the Unix socket, and listen.kind=tcp has none, so that every container of the pod may connect: leave allowedUids out, or set listen.kind=unix" -}}
{{- end -}}
{{- if and .Values.listen.allowedUids (not .Values.sidecar.runAsUser) -}}
{{- $p = append $p "listen.allowedUids has to let the probes in, which run as the sidecar's user: set sidecar.runAsUser, or leave allowedUids out" -}}
{{- end -}}
{{- if and $policy.enabled $policy.storeTo (not $policy.signInTo) (include "leasehold.usesWorkloadIdentity" .) -}}
{{- $p = append $p "networkPolicy.storeTo would keep the sidecar from Microsoft Entra ID, where workload identity signs in: set networkPolicy.signInTo" -}}
{{- end -}}
{{- toYaml $p -}}
{{- end -}}

{{- define "leasehold.validate.settings" -}}
{{- $p := list -}}
{{- $secret := list "store.azure.connection_string" "store.azure.sas_url" "store.azure.account_key" "store.azure.client_secret" -}}
{{- $made := include "leasehold.settings" . | fromYaml -}}
{{- range $name, $value := .Values.sidecar.settings -}}
{{- if has $name $secret -}}
{{- $p = append $p (printf "sidecar.settings has %s, a secret, which everybody who may read the pod would see: use store.azure.existingSecret" $name) -}}
{{- else if eq $name "telemetry.traces.headers" -}}
{{- $p = append $p "sidecar.settings has telemetry.traces.headers, a secret, which everybody who may read the pod would see: use telemetry.traces.headersSecret" -}}
{{- else if hasKey $made $name -}}
{{- $p = append $p (printf "sidecar.settings has %s, for which the chart has a value of its own: use that" $name) -}}
{{- end -}}
{{- end -}}
{{- with .Values.telemetry.traces.headersSecret -}}
{{- if and (or .name .key) (not (and .name .key)) -}}
{{- $p = append $p "telemetry.traces.headersSecret needs name and key" -}}
{{- end -}}
{{- if and .name (not $.Values.telemetry.traces.endpoint) -}}
{{- $p = append $p "telemetry.traces.headersSecret has no effect without telemetry.traces.endpoint" -}}
{{- end -}}
{{- end -}}
{{- range .Values.sidecar.extraEnv -}}
{{- if hasPrefix "LEASEHOLD_" .name -}}
{{- $p = append $p (printf "sidecar.extraEnv has %s: use sidecar.settings" .name) -}}
{{- end -}}
{{- $value := .value | default "" -}}
{{- if and $value (regexMatch "^OTEL_EXPORTER_OTLP_.*HEADERS$|^OTEL_EXPORTER_OTLP_HEADERS$" .name) -}}
{{- $p = append $p (printf "sidecar.extraEnv has the value of %s, a secret, which everybody who may read the pod would see: use telemetry.traces.headersSecret" .name) -}}
{{- end -}}
{{- if and (hasPrefix "OTEL_EXPORTER_OTLP_" .name) (hasSuffix "ENDPOINT" .name) (contains "@" $value) -}}
{{- $p = append $p (printf "sidecar.extraEnv has %s with a user or password in it, which the sidecar does not use: use telemetry.traces.headersSecret" .name) -}}
{{- end -}}
{{- end -}}
{{- toYaml $p -}}
{{- end -}}
