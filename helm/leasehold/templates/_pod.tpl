{{/* The pod's settings that have nothing to do with its containers. */}}
{{- define "leasehold.podBasics" -}}
serviceAccountName: {{ include "leasehold.serviceAccountName" . }}
automountServiceAccountToken: false
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
{{- range $field := list "command" "args" "envFrom" "ports" "startupProbe" "readinessProbe" "livenessProbe" "resources" "securityContext" }}
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
{{- with concat (include "leasehold.volumeMounts" . | fromYamlArray) $app.volumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The application's pod, with the sidecar in it. */}}
{{- define "leasehold.appPod" -}}
metadata:
  labels:
    {{- include "leasehold.podLabels" . | nindent 4 }}
  annotations:
    {{- include "leasehold.podAnnotations" . | nindent 4 }}
spec:
  {{- include "leasehold.podBasics" . | nindent 2 }}
  {{- if has .Values.app.kind (list "Job" "CronJob") }}
  restartPolicy: Never
  {{- end }}
  {{- if .Values.sidecar.native }}
  initContainers:
    {{- include "leasehold.sidecar" . | nindent 4 }}
  {{- end }}
  containers:
    - {{- include "leasehold.appContainer" . | nindent 6 }}
    {{- if not .Values.sidecar.native }}
    {{- include "leasehold.sidecar" . | nindent 4 }}
    {{- end }}
  {{- with concat (include "leasehold.volumes" . | fromYamlArray) .Values.app.volumes }}
  volumes:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
