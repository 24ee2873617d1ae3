{{/* What every object carries; takes (dict "root" $ "part" "watch"). */}}
{{- define "lockstep.labels" -}}
{{ include "lockstep.selector" . }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* What selects the pods of a part: names are fixed, so one release a cluster. */}}
{{- define "lockstep.selector" -}}
app.kubernetes.io/name: lockstep
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{/* With the last words of a container that ends wrong in the pod's own state. */}}
{{- define "lockstep.image" -}}
{{- with .root.Values.images -}}
image: {{ with .registry }}{{ . }}/{{ end }}lockstep-{{ $.part }}:{{ .tag | default $.root.Chart.AppVersion }}
imagePullPolicy: {{ .pullPolicy }}
terminationMessagePolicy: FallbackToLogsOnError
{{- end }}
{{- end }}

{{- define "lockstep.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the restricted Pod Security profile asks of a pod. */}}
{{- define "lockstep.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "lockstep.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "lockstep.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
{{ toYaml . | indent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lockstep.credentials" -}}
{{- with .Values.prometheus.credentialsSecret }}
envFrom:
- secretRef: {name: {{ . }}}
{{- end }}
{{- end }}

{{/* Where texts lead to, as `lockstep watch` and `lockstep rules` read it. */}}
{{- define "lockstep.links" -}}
- {name: LOCKSTEP_RUNBOOKS_URL, value: {{ .Values.links.runbooks | quote }}}
- {name: LOCKSTEP_DASHBOARD_URL, value: {{ .Values.links.dashboard | quote }}}
- {name: LOCKSTEP_GRAFANA_URL, value: {{ .Values.links.grafana | quote }}}
{{- end }}

{{/* A rule file with this release's addresses in place of the placeholders; takes (dict "root" $ "text" T). */}}
{{- define "lockstep.addressed" -}}
{{- with .root.Values.links -}}
{{- $text := $.text | replace "https://lockstep.example/runbooks" .runbooks -}}
{{- $text = $text | replace "https://dashboard.lockstep.example" .dashboard -}}
{{- $text | replace "https://grafana.lockstep.example/d" .grafana -}}
{{- end }}
{{- end }}

{{/* A dashboard, as above. The placeholder is nowhere: what a port-forward opens is better. */}}
{{- define "lockstep.linked" -}}
{{- $where := .root.Values.links.dashboard -}}
{{- ne $where "https://dashboard.lockstep.example" | ternary (.text | replace "http://127.0.0.1:8501" $where) .text -}}
{{- end }}

{{- define "lockstep.findingsClaim" -}}
{{ .Values.watch.persistence.existingClaim | default "lockstep-findings" }}
{{- end }}

{{- define "lockstep.claim" -}}
accessModes: [{{ .accessMode }}]
{{- with .storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end }}

{{/* For metadata of what holds findings or archives. */}}
{{- define "lockstep.keep" -}}
{{- if .keep }}
annotations: {helm.sh/resource-policy: keep}
{{- end }}
{{- end }}

{{/* Empty = Prometheus's own, which is at most the interval. */}}
{{- define "lockstep.scrapeTimeout" -}}
{{- with .Values.monitoring.scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- end }}

{{/* Of a duration, as 15s. */}}
{{- define "lockstep.milliseconds" -}}
{{- $number := regexFind "^[0-9]+" . | int -}}
{{- mul $number (get (dict "ms" 1 "s" 1000 "m" 60000) (regexFind "[a-z]+$" .)) -}}
{{- end }}

{{/* Everything that runs in the namespace `monitoring`. */}}
{{- define "lockstep.fromMonitoring" -}}
- namespaceSelector:
    matchLabels: {kubernetes.io/metadata.name: {{ .Values.monitoring.namespace }}}
{{- end }}

{{- define "lockstep.dcgmUrl" -}}
{{- with .Values.collector.dcgmExporter -}}
{{ .url | default (printf "http://lockstep-dcgm-exporter.%s.svc:%v/metrics" .namespace .port) }}
{{- end }}
{{- end }}

{{/* The port of that address: what a NetworkPolicy opens. */}}
{{- define "lockstep.dcgmPort" -}}
{{- $url := include "lockstep.dcgmUrl" . -}}
{{- $port := regexFind ":[0-9]+(/|$)" (regexReplaceAll "^https?://" $url "") | trimSuffix "/" | trimPrefix ":" -}}
{{ $port | default (hasPrefix "https:" $url | ternary "443" "80") }}
{{- end }}

{{- /* Name of the Secret with the webhook's token; empty = watch makes its own, and nobody else has it. */}}
{{- define "lockstep.webhookSecret" -}}
{{- if .Values.watch.webhookTokenSecret }}{{ .Values.watch.webhookTokenSecret }}
{{- else if .Values.watch.createWebhookSecret }}lockstep-webhook{{ end }}
{{- end }}
