{{/* The sidecar's settings, as a map from their names to their values: what docs/configuration.md lists. */}}
{{- define "leasehold.settings" -}}
{{- $v := .Values -}}
{{- $s := dict -}}
{{- $_ := set $s "store.kind" $v.store.kind -}}
{{- if eq $v.store.kind "embedded" -}}
{{- $_ := set $s "store.embedded.path" "/var/lib/leasehold/locks.db" -}}
{{- /* What fits into its volume, also with full records. */ -}}
{{- $_ := set $s "store.embedded.max_locks" "2500" -}}
{{- else -}}
{{- $a := $v.store.azure -}}
{{- $_ := set $s "store.azure.sign_in" $a.signIn -}}
{{- $_ := set $s "store.azure.create_container" $a.createContainer -}}
{{- with $a.account }}{{ $_ := set $s "store.azure.account" . }}{{ end -}}
{{- with $a.endpoint }}{{ $_ := set $s "store.azure.endpoint" . }}{{ end -}}
{{- if include "leasehold.usesSecret" . -}}
{{- $_ := set $s (printf "store.azure.%s_file" $a.signIn) "/etc/leasehold/credentials/secret" -}}
{{- else if eq $a.signIn "managed_identity" -}}
{{- with $a.clientId }}{{ $_ := set $s "store.azure.client_id" . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $s "host_id.provider" $v.hostId.provider -}}
{{- $_ := set $s "host_id.allow_override" $v.hostId.allowOverride -}}
{{- if has $v.hostId.provider (list "host-type" "static") -}}
{{- $_ := set $s "host_id.host_type" (include "leasehold.hostType" .) -}}
{{- end -}}
{{- with $v.hostId.id }}{{ $_ := set $s "host_id.host_id" . }}{{ end -}}
{{- with $v.hostId.hostName }}{{ $_ := set $s "host_id.host_name" . }}{{ end -}}
{{- with $v.hostId.siteName }}{{ $_ := set $s "host_id.site_name" . }}{{ end -}}
{{- if eq $v.hostId.provider "kubernetes" -}}
{{- $_ := set $s "host_id.owner" (default (include "leasehold.fullname" .) $v.hostId.owner) -}}
{{- $_ := set $s "host_id.namespace" .Release.Namespace -}}
{{- end -}}
{{- $_ := set $s "paths.layout" $v.paths.layout -}}
{{- $_ := set $s "paths.prefix" $v.paths.prefix -}}
{{- with $v.paths.container }}{{ $_ := set $s "paths.container" . }}{{ end -}}
{{- $_ := set $s "locks.lease_duration" $v.locks.leaseDuration -}}
{{- $_ := set $s "locks.poll_cap" $v.locks.pollCap -}}
{{- $_ := set $s "locks.hand_off" $v.locks.handOff -}}
{{- $_ := set $s "locks.max_hold_default" $v.locks.maxHoldDefault -}}
{{- $_ := set $s "drain.period" $v.drain.period -}}
{{- /* Where a replacement follows, holds are resumed there: at the next pod of a stand-alone one; at the container that the kubelet starts
again where a native sidecar alone was stopped. In a pod that ends, a native sidecar is stopped last, and nobody holds by then. */ -}}
{{- if or (eq $v.mode "standalone") $v.sidecar.native }}{{ $_ := set $s "drain.hand_over" true }}{{ end -}}
{{- if eq $v.mode "standalone" -}}
{{- $_ := set $s "listen.direct" $v.listen.direct -}}
{{- with $v.standalone.access }}{{ $_ := set $s "access" (toJson .) }}{{ end -}}
{{- $_ := set $s "listen.tcp" (printf "%s:%d" $v.listen.address (int $v.listen.port)) -}}
{{- $_ := set $s "listen.tls.certificate" "/etc/leasehold/tls/tls.crt" -}}
{{- $_ := set $s "listen.tls.key" "/etc/leasehold/tls/tls.key" -}}
{{- $_ := set $s "listen.tls.client_ca" "/etc/leasehold/tls/ca.crt" -}}
{{- if $v.standalone.tls.crlSecret }}{{ $_ := set $s "listen.tls.crl" "/etc/leasehold/tls/ca.crl" }}{{ end -}}
{{- else -}}
{{- $_ := set $s "listen.tcp" (ternary (printf "127.0.0.1:%d" (int $v.listen.port)) "" (eq $v.listen.kind "tcp")) -}}
{{- end -}}
{{- if include "leasehold.hasSocket" . -}}
{{- $_ := set $s "listen.unix" (include "leasehold.socket" .) -}}
{{- with $v.listen.allowedUids -}}
{{/* Whoever runs a command in the sidecar's container is the sidecar's own user. */}}
{{- $_ := set $s "listen.unix_allowed_uids" (concat (list ($v.sidecar.runAsUser | int64)) . | uniq | join ",") -}}
{{- end -}}
{{- end -}}
{{- $_ := set $s "listen.probes" "/run/leasehold-probes/probes.sock" -}}
{{- $_ := set $s "admin.listen" (printf "%s:%d" (ternary $v.listen.address "127.0.0.1" $v.metrics.enabled) (int $v.admin.port)) -}}
{{- $_ := set $s "admin.allow_break" $v.admin.allowBreak -}}
{{- $_ := set $s "admin.allow_schedule_changes" $v.admin.allowScheduleChanges -}}
{{- if $v.admin.scheduleLabels }}{{ $_ := set $s "admin.schedule_labels" true }}{{ end -}}
{{- if ne $v.admin.page "loopback" }}{{ $_ := set $s "admin.page" $v.admin.page }}{{ end -}}
{{- $_ := set $s "log.format" $v.log.format -}}
{{- with $v.log.filter }}{{ $_ := set $s "log.filter" . }}{{ end -}}
{{- with $v.telemetry.traces -}}
{{- with .endpoint }}{{ $_ := set $s "telemetry.traces.endpoint" . }}{{ end -}}
{{- with .sampler }}{{ $_ := set $s "telemetry.traces.sampler" . }}{{ end -}}
{{- with .ratio }}{{ $_ := set $s "telemetry.traces.ratio" . }}{{ end -}}
{{- with .serviceName }}{{ $_ := set $s "telemetry.traces.service_name" . }}{{ end -}}
{{- end -}}
{{- toYaml $s -}}
{{- end -}}

{{- define "leasehold.sidecarEnv" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- with .Values.telemetry.traces.headersSecret }}
{{- if .name }}
- name: LEASEHOLD_TELEMETRY_TRACES_HEADERS
  valueFrom:
    secretKeyRef:
      name: {{ .name | quote }}
      key: {{ .key | quote }}
{{- end }}
{{- end }}
{{- include "leasehold.settingsEnv" (dict "context" . "prefixes" (list "")) }}
{{- end -}}

{{/* The sidecar's settings as variables, for a list of `prefixes` of their names, and what goes with them. */}}
{{- define "leasehold.settingsEnv" -}}
{{- $values := .context.Values -}}
{{- $prefixes := .prefixes -}}
{{- range $name, $value := merge (include "leasehold.settings" .context | fromYaml) $values.sidecar.settings -}}
{{- range $prefixes -}}
{{- if hasPrefix . $name }}
- name: LEASEHOLD_{{ $name | replace "." "_" | upper }}
  value: {{ $value | toString | quote }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $values.store.azure.tenantId -}}
{{- if include "leasehold.usesWorkloadIdentity" $.context }}
- name: LEASEHOLD_STORE_AZURE_TENANT_ID
  value: {{ . | quote }}
{{- end -}}
{{- end -}}
{{- with $values.sidecar.extraEnv }}
{{ toYaml . }}
{{- end -}}
{{- end -}}

{{- define "leasehold.sidecarSecurityContext" -}}
runAsNonRoot: true
{{- range $field := list "runAsUser" "runAsGroup" }}
{{- with get $.Values.sidecar $field }}
{{ $field }}: {{ . | int64 }}
{{- end }}
{{- end }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/*
Alive is who answers, whatever the store does: `leasehold probe --live` asks the sidecar and the sidecar asks nobody. Were the
store asked, its outage would restart the sidecars and end the holds that they keep. Ready is who can use the store. Probes
have a socket of their own, which no other container has: callers, however many, do not keep them waiting (S38).
*/}}
{{- define "leasehold.probesEndpoint" -}}
unix:///run/leasehold-probes/probes.sock
{{- end -}}

{{- define "leasehold.probes" -}}
{{- $alive := list "/leasehold" "probe" "--live" "--endpoint" (include "leasehold.probesEndpoint" .) -}}
{{- $ready := list "/leasehold" "probe" "--endpoint" (include "leasehold.probesEndpoint" .) -}}
startupProbe:
  exec:
    command: {{ toJson $alive }}
  periodSeconds: 1
  timeoutSeconds: {{ .Values.probes.timeoutSeconds }}
  failureThreshold: 60
livenessProbe:
  exec:
    command: {{ toJson $alive }}
  periodSeconds: {{ .Values.probes.periodSeconds }}
  timeoutSeconds: {{ .Values.probes.timeoutSeconds }}
  failureThreshold: 6
  {{- /* Who does not answer for a minute does nothing with the pod's own grace period. */}}
  terminationGracePeriodSeconds: 5
{{- $serves := and (eq .Values.mode "app") .Values.app.ports -}}
{{- if ternary (not $serves) .Values.probes.readiness (kindIs "invalid" .Values.probes.readiness) }}
readinessProbe:
  exec:
    command: {{ toJson $ready }}
  {{- /* One success makes ready: it is seen soon after the store is back. */}}
  periodSeconds: 3
  timeoutSeconds: {{ .Values.probes.timeoutSeconds }}
  failureThreshold: 10
{{- end }}
{{- end -}}

{{/* The container, without what makes it a native sidecar. */}}
{{- define "leasehold.container" -}}
name: leasehold
image: {{ include "leasehold.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve]
env:
  {{- include "leasehold.sidecarEnv" . | nindent 2 }}
{{- if or .Values.metrics.enabled (eq .Values.mode "standalone") }}
ports:
  {{- if eq .Values.mode "standalone" }}
  - name: grpc
    containerPort: {{ .Values.listen.port }}
    protocol: TCP
  {{- end }}
  {{- if .Values.metrics.enabled }}
  - name: lh-metrics
    containerPort: {{ .Values.admin.port }}
    protocol: TCP
  {{- end }}
{{- end }}
{{ include "leasehold.probes" . }}
resources:
  {{- toYaml .Values.sidecar.resources | nindent 2 }}
securityContext:
  {{- include "leasehold.sidecarSecurityContext" . | nindent 2 }}
{{- $mounts := list -}}
{{- if include "leasehold.hasSocket" . -}}
{{- $mounts = append $mounts (dict "name" "leasehold-socket" "mountPath" .Values.listen.folder) -}}
{{- end -}}
{{- $mounts = append $mounts (dict "name" "leasehold-probes" "mountPath" "/run/leasehold-probes") -}}
{{- $mounts = concat $mounts (include "leasehold.storeMounts" . | fromYamlArray) -}}
{{- if eq .Values.mode "standalone" -}}
{{- $mounts = append $mounts (dict "name" "leasehold-tls" "mountPath" "/etc/leasehold/tls" "readOnly" true) -}}
{{- end }}
{{- with $mounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What the store needs: its file, or the secret to sign in with. */}}
{{- define "leasehold.storeMounts" -}}
{{- $mounts := list -}}
{{- if eq .Values.store.kind "embedded" -}}
{{- $mounts = append $mounts (dict "name" "leasehold-state" "mountPath" "/var/lib/leasehold") -}}
{{- end -}}
{{- if include "leasehold.usesSecret" . -}}
{{- $mounts = append $mounts (dict "name" "leasehold-credentials" "mountPath" "/etc/leasehold/credentials" "readOnly" true) -}}
{{- end -}}
{{- toYaml $mounts -}}
{{- end -}}

{{- define "leasehold.sidecar" -}}
{{- include "leasehold.validate" . -}}
{{- $container := include "leasehold.container" . | fromYaml -}}
{{- if .Values.sidecar.native -}}
{{- $_ := set $container "restartPolicy" "Always" -}}
{{- else -}}
{{/* The kubelet starts the containers in their order, each after the postStart of the one before it. */}}
{{- $started := list "/leasehold" "probe" "--live" "--wait" "30s" "--endpoint" (include "leasehold.probesEndpoint" .) -}}
{{- $_ := set $container "lifecycle" (dict "postStart" (dict "exec" (dict "command" $started))) -}}
{{- end -}}
{{- toYaml (list $container) -}}
{{- end -}}

{{/* Copies the program to where the application's container finds it. The image has no shell and no cp. */}}
{{- define "leasehold.program" -}}
{{- $program := .Values.app.installProgram -}}
{{- if $program.enabled -}}
- name: leasehold-program
  image: {{ include "leasehold.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [install, {{ $program.folder | quote }}]
  resources:
    {{- toYaml .Values.sidecar.resources | nindent 4 }}
  securityContext:
    {{- include "leasehold.sidecarSecurityContext" . | nindent 4 }}
  volumeMounts:
    - name: leasehold-program
      mountPath: {{ $program.folder }}
{{- end -}}
{{- end -}}
