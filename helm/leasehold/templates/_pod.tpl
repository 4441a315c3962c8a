{{/* The pod's settings that have nothing to do with its containers. */}}
{{- define "leasehold.podBasics" -}}
serviceAccountName: {{ include "leasehold.serviceAccountName" . }}
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
securityContext:
  {{- include "leasehold.podSecurityContext" . | nindent 2 }}
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" }}
{{- with get $.Values $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The application's container. */}}
{{- define "leasehold.appContainer" -}}
{{- $app := .Values.app -}}
name: app
image: {{ $app.image | quote }}
imagePullPolicy: {{ $app.imagePullPolicy }}
{{- with include "leasehold.command" . | fromYamlArray }}
command:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $field := list "args" "envFrom" "ports" "startupProbe" "readinessProbe" "livenessProbe" "resources" "securityContext" }}
{{- with get $app $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
env:
  {{- include "leasehold.env" . | nindent 2 }}
  {{- with $app.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $tmp := include "leasehold.tmpMounts" . | fromYamlArray -}}
{{- with concat (include "leasehold.volumeMounts" . | fromYamlArray) $tmp $app.volumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where the application may write although its root file system is read-only; a volume of its own comes first. */}}
{{- define "leasehold.tmpMounts" -}}
{{- $found := false -}}
{{- range .Values.app.volumeMounts -}}
{{- if eq (trimSuffix "/" .mountPath) "/tmp" -}}
{{- $found = true -}}
{{- end -}}
{{- end -}}
{{- toYaml (ternary (list (dict "name" "app-tmp" "mountPath" "/tmp")) list (and .Values.app.tmp.enabled (not $found))) -}}
{{- end -}}

{{/* The application's pod, with the sidecar in it. */}}
{{- define "leasehold.appPod" -}}
metadata:
  labels:
    {{- include "leasehold.podLabels" . | nindent 4 }}
  annotations:
    {{- include "leasehold.podAnnotations" . | nindent 4 }}
spec:
  automountServiceAccountToken: {{ .Values.serviceAccount.automountToken }}
  {{- include "leasehold.podBasics" . | nindent 2 }}
  {{- if has .Values.app.kind (list "Job" "CronJob") }}
  restartPolicy: Never
  {{- end }}
  {{- $initial := include "leasehold.program" . | fromYamlArray -}}
  {{- if .Values.sidecar.native -}}
  {{- $initial = concat $initial (include "leasehold.sidecar" . | fromYamlArray) -}}
  {{- end -}}
  {{- with $initial }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    {{- if not .Values.sidecar.native }}
    {{- include "leasehold.sidecar" . | nindent 4 }}
    {{- end }}
    - {{- include "leasehold.appContainer" . | nindent 6 }}
  {{- $volumes := include "leasehold.volumes" . | fromYamlArray -}}
  {{- if include "leasehold.tmpMounts" . | fromYamlArray -}}
  {{- $volumes = append $volumes (dict "name" "app-tmp" "emptyDir" (dict "sizeLimit" .Values.app.tmp.sizeLimit)) -}}
  {{- end -}}
  {{- with concat $volumes .Values.app.volumes }}
  volumes:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
