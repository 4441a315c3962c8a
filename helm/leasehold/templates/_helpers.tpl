{{/*
The named templates for other charts. Call them with the chart's own context, `.Subcharts.leasehold`:

  leasehold.sidecar             the sidecar's container, as a list of one: for initContainers, or first among the
                                containers when `sidecar.native` is false
  leasehold.program             an init container that copies the program into the pod, as a list: for initContainers;
                                empty unless `app.installProgram.enabled`
  leasehold.volumes             the volumes that it needs, as a list: for the pod's volumes
  leasehold.env                 what the application's container needs, as a list: for its env
  leasehold.command             `app.command`, with `leasehold every` before it if there is an `app.schedule`, as a list: for
                                the application container's command
  leasehold.volumeMounts        where the socket and the program are, as a list: for the application container's
                                volumeMounts
  leasehold.podSecurityContext  for the pod's securityContext
  leasehold.podLabels           for the pod's labels
  leasehold.podAnnotations      for the pod's annotations
  leasehold.serviceAccountName  for the pod's serviceAccountName
  leasehold.validate            refuses values that contradict each other
*/}}

{{/* 52 characters at the most: a CronJob's name may not be longer. */}}
{{- define "leasehold.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "leasehold.hostType" -}}
{{- default (include "leasehold.fullname" .) .Values.hostType -}}
{{- end -}}

{{- define "leasehold.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/*
Selectors cannot be changed once they are installed: so nothing in these labels comes from a value that an upgrade may
change, nor from the chart's version.
*/}}
{{- define "leasehold.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* For what is made from a template: the same in every version of the chart. */}}
{{- define "leasehold.stableLabels" -}}
{{- merge (include "leasehold.selectorLabels" . | fromYaml) .Values.commonLabels | toYaml -}}
{{- end -}}

{{- define "leasehold.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{ include "leasehold.selectorLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "leasehold.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "leasehold.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* "true" where the pod signs in by workload identity, else nothing. */}}
{{- define "leasehold.usesWorkloadIdentity" -}}
{{- if and (eq .Values.store.kind "azure") (eq .Values.store.azure.signIn "workload_identity") -}}true{{- end -}}
{{- end -}}

{{/* "true" where the pod signs in by a Secret, else nothing. */}}
{{- define "leasehold.usesSecret" -}}
{{- $bySecret := list "connection_string" "sas_url" "account_key" -}}
{{- if and (eq .Values.store.kind "azure") (has .Values.store.azure.signIn $bySecret) -}}true{{- end -}}
{{- end -}}

{{/*
Without the chart's version: a new version alone replaces no pod, and runs no Job again. A pod of another chart
(`mode: templates`) has names of its own.
*/}}
{{- define "leasehold.podLabels" -}}
{{- $labels := dict -}}
{{- if ne .Values.mode "templates" -}}
{{- $labels = include "leasehold.stableLabels" . | fromYaml -}}
{{- end -}}
{{- if include "leasehold.usesWorkloadIdentity" . -}}
{{- $_ := set $labels "azure.workload.identity/use" "true" -}}
{{- end -}}
{{- with merge $labels .Values.podLabels -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* The containers that do not get the identity's token, between semicolons. */}}
{{- define "leasehold.skipContainers" -}}
{{- if and (include "leasehold.usesWorkloadIdentity" .) (not .Values.store.azure.shareIdentityWithApp) -}}
{{- $names := .Values.store.azure.skipContainers -}}
{{- if eq .Values.mode "app" -}}
{{- $names = concat (list "app") $names -}}
{{- end -}}
{{- if and $names .Values.app.installProgram.enabled -}}
{{- $names = append $names "leasehold-program" -}}
{{- end -}}
{{- $names | uniq | join ";" -}}
{{- end -}}
{{- end -}}

{{- define "leasehold.podAnnotations" -}}
{{- $annotations := dict -}}
{{- if ne .Values.mode "templates" -}}
{{- $_ := set $annotations "kubectl.kubernetes.io/default-container" (include "leasehold.mainContainer" .) -}}
{{- end -}}
{{- with include "leasehold.skipContainers" . -}}
{{- $_ := set $annotations "azure.workload.identity/skip-containers" . -}}
{{- end -}}
{{- with mergeOverwrite $annotations .Values.podAnnotations -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "leasehold.mainContainer" -}}
{{- ternary "leasehold" "app" (eq .Values.mode "standalone") -}}
{{- end -}}

{{- define "leasehold.podSecurityContext" -}}
{{- toYaml .Values.podSecurityContext -}}
{{- end -}}

{{- define "leasehold.socket" -}}
{{- printf "%s/leasehold.sock" (trimSuffix "/" .Values.listen.folder) -}}
{{- end -}}

{{/* "true" where the sidecar listens on a Unix socket: always, but for loopback TCP. */}}
{{- define "leasehold.hasSocket" -}}
{{- if or (eq .Values.listen.kind "unix") (eq .Values.mode "standalone") -}}true{{- end -}}
{{- end -}}

{{/* Where containers of the same pod find the sidecar. */}}
{{- define "leasehold.endpoint" -}}
{{- if include "leasehold.hasSocket" . -}}
unix://{{ include "leasehold.socket" . }}
{{- else -}}
http://127.0.0.1:{{ .Values.listen.port }}
{{- end -}}
{{- end -}}

{{- define "leasehold.env" -}}
- name: LEASEHOLD_ENDPOINT
  value: {{ include "leasehold.endpoint" . | quote }}
{{- with .Values.sharing }}
{{- if .enabled }}
- name: LEASEHOLD_PRIORITY
  value: {{ default $.Release.Revision .priority | int64 | quote }}
- name: LEASEHOLD_YIELDS
  value: {{ .yields | quote }}
- name: LEASEHOLD_SHARE
  value: {{ default $.Release.Name .share | quote }}
- name: LEASEHOLD_REBALANCE
  value: {{ .rebalance | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The application's command; with a schedule, the program that starts it when it is due. */}}
{{- define "leasehold.command" -}}
{{- $app := .Values.app -}}
{{- $s := $app.schedule -}}
{{- $command := $app.command -}}
{{- if $s.expression -}}
{{- $program := ternary (printf "%s/leasehold" $app.installProgram.folder) "leasehold" $app.installProgram.enabled -}}
{{- $every := list (default $program $s.program) "every" $s.expression "--function" $s.function -}}
{{- $flags := list (list "--scope" $s.scope) (list "--tz" $s.timeZone) (list "--catch-up" $s.catchUp)
      (list "--catch-up-window" $s.catchUpWindow) (list "--grace" $s.grace) (list "--overlap" $s.overlap)
      (list "--retry" (int $s.retry)) (list "--backoff" $s.backoff) (list "--timeout" $s.timeout)
      (list "--progress-timeout" $s.progressTimeout) (list "--spread" $s.spread) (list "--first" $s.first)
      (list "--revision" (default $.Release.Revision $s.revision | int64)) -}}
{{- range $flags -}}
{{- if last . -}}
{{- $every = concat $every (list (first .) (last . | toString)) -}}
{{- end -}}
{{- end -}}
{{- $command = concat $every $s.extraArgs (list "--") $command -}}
{{- end -}}
{{- toYaml $command -}}
{{- end -}}

{{- define "leasehold.volumeMounts" -}}
{{- $mounts := list -}}
{{- if include "leasehold.hasSocket" . -}}
{{- $mounts = append $mounts (dict "name" "leasehold-socket" "mountPath" .Values.listen.folder "readOnly" true) -}}
{{- end -}}
{{- with .Values.app.installProgram -}}
{{- if .enabled -}}
{{- $mounts = append $mounts (dict "name" "leasehold-program" "mountPath" .folder "readOnly" true) -}}
{{- end -}}
{{- end -}}
{{- toYaml $mounts -}}
{{- end -}}

{{- define "leasehold.volumes" -}}
{{- $volumes := include "leasehold.sidecarVolumes" . | fromYamlArray -}}
{{- if .Values.app.installProgram.enabled -}}
{{- $volumes = append $volumes (dict "name" "leasehold-program" "emptyDir" (dict "sizeLimit" "64Mi")) -}}
{{- end -}}
{{- toYaml $volumes -}}
{{- end -}}

{{- define "leasehold.sidecarVolumes" -}}
{{- $volumes := list -}}
{{- if include "leasehold.hasSocket" . -}}
{{- $volumes = append $volumes (dict "name" "leasehold-socket" "emptyDir" (dict "medium" "Memory" "sizeLimit" "1Mi")) -}}
{{- end -}}
{{- $volumes = append $volumes (dict "name" "leasehold-probes" "emptyDir" (dict "medium" "Memory" "sizeLimit" "1Mi")) -}}
{{- if eq .Values.store.kind "embedded" -}}
{{- $volumes = append $volumes (dict "name" "leasehold-state" "emptyDir" (dict "sizeLimit" "128Mi")) -}}
{{- end -}}
{{- if include "leasehold.usesSecret" . -}}
{{- $secret := .Values.store.azure.existingSecret -}}
{{- $item := dict "key" $secret.key "path" "secret" -}}
{{- $source := dict "secretName" $secret.name "defaultMode" 288 "items" (list $item) -}}
{{- $volumes = append $volumes (dict "name" "leasehold-credentials" "secret" $source) -}}
{{- end -}}
{{- if eq .Values.mode "standalone" -}}
{{- $tls := .Values.standalone.tls -}}
{{- $server := dict "name" $tls.existingSecret "items" (list (dict "key" "tls.crt" "path" "tls.crt") (dict "key" "tls.key" "path" "tls.key")) -}}
{{- $ca := dict "name" (default $tls.existingSecret $tls.clientCaSecret) "items" (list (dict "key" "ca.crt" "path" "ca.crt")) -}}
{{- $sources := list (dict "secret" $server) (dict "secret" $ca) -}}
{{- with $tls.crlSecret -}}
{{- $sources = append $sources (dict "secret" (dict "name" . "items" (list (dict "key" "ca.crl" "path" "ca.crl")))) -}}
{{- end -}}
{{- $volumes = append $volumes (dict "name" "leasehold-tls" "projected" (dict "defaultMode" 288 "sources" $sources)) -}}
{{- end -}}
{{- toYaml $volumes -}}
{{- end -}}

{{/* A duration such as "1h 30m" or "500ms", in milliseconds. */}}
{{- define "leasehold.milliseconds" -}}
{{- $factors := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+ ?(ms|s|m|h)" . -1 -}}
{{- $number := regexFind "[0-9]+" . | int64 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $sum = add $sum (mul $number (get $factors $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}
