{{/* Any value in one line of YAML. A text is quoted only if it must be. */}}
{{- define "milligpu.flow" -}}
{{- $parts := list -}}
{{- if kindIs "map" . -}}
{{- range $key, $value := . }}{{ $parts = append $parts (printf "%s: %s" (include "milligpu.flow" $key) (include "milligpu.flow" $value)) }}{{ end -}}
{ {{- join ", " $parts -}} }
{{- else if kindIs "slice" . -}}
{{- range . }}{{ $parts = append $parts (include "milligpu.flow" .) }}{{ end -}}
[ {{- join ", " $parts -}} ]
{{- else if not (kindIs "string" .) -}}
{{ toJson . }}
{{- else if regexMatch "^[A-Za-z0-9./_-]+$" . -}}
{{ toYaml . }}
{{- else if regexMatch "^[ -~]*\"[ -~]*$" . -}}
'{{ replace "'" "''" . }}'
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end -}}

{{/* A setting as the text that a program reads: numbers and booleans as they are written, lists and objects as JSON. */}}
{{- define "milligpu.setting" -}}
{{ include "milligpu.flow" (kindIs "string" . | ternary . (toJson .)) }}
{{- end -}}

{{/* A time such as 90s, 10m, 12h or 90d in seconds. */}}
{{- define "milligpu.seconds" -}}
{{- $unit := regexFind "[smhd]$" . -}}
{{ mul (trimSuffix $unit . | atoi) (get (dict "s" 1 "m" 60 "h" 3600 "d" 86400) $unit) }}
{{- end -}}

{{/* What pods of a program are found by. It can never change: (component). */}}
{{- define "milligpu.selector" -}}
{{ include "milligpu.flow" (dict "app.kubernetes.io/name" "milligpu" "app.kubernetes.io/component" .) }}
{{- end -}}

{{/* Labels and annotations of an object or a pod: root; component, labels and annotations if there are any. Ours win. */}}
{{- define "milligpu.marks" -}}
{{- $ours := dict "app.kubernetes.io/name" "milligpu" -}}
{{- with .component }}{{ $_ := set $ours "app.kubernetes.io/component" . }}{{ end -}}
labels: {{ include "milligpu.flow" (merge $ours (.labels | default dict) .root.Values.labels) }}
{{- with merge dict (.annotations | default dict) .root.Values.annotations }}
annotations: {{ include "milligpu.flow" . }}
{{- end }}
{{- end -}}

{{/* Annotations of a program's pods: root, settings, port and scheme of its metrics if it has any. */}}
{{- define "milligpu.notes" -}}
{{- $notes := dict -}}
{{- if and .port (eq .root.Values.monitoring.by "annotations") -}}
{{- $notes = dict "prometheus.io/scrape" "true" "prometheus.io/port" .port "prometheus.io/scheme" .scheme -}}
{{- end -}}
{{- if .root.Values.restartOnChange }}{{ $_ := set $notes "checksum/settings" (toJson .settings | sha256sum | trunc 16) }}{{ end -}}
{{ toJson $notes }}
{{- end -}}

{{/* Where pods of a program may run, which come first, and how they are pulled: (root, values of the program, priority class). */}}
{{- define "milligpu.placement" -}}
{{- with index . 1 -}}
nodeSelector: {{ include "milligpu.flow" .nodeSelector }}
{{- with .tolerations }}
tolerations: {{ include "milligpu.flow" . }}
{{- end }}
{{- with .affinity }}
affinity: {{ include "milligpu.flow" . }}
{{- end }}
{{- end }}
{{- with index . 2 }}
priorityClassName: {{ include "milligpu.flow" . }}
{{- end }}
{{- $secrets := list -}}
{{- range (index . 0).Values.image.pullSecrets }}{{ $secrets = append $secrets (dict "name" .) }}{{ end -}}
{{- with $secrets }}
imagePullSecrets: {{ include "milligpu.flow" . }}
{{- end }}
{{- end -}}

{{/* Some clouds admit pods of the system's priority classes only where a quota names the class: (root, namespace, pods, class). */}}
{{- define "milligpu.quota" -}}
apiVersion: v1
kind: ResourceQuota
metadata:
  name: critical-pods
  namespace: {{ index . 1 }}
  {{- include "milligpu.marks" (dict "root" (index . 0)) | nindent 2 }}
spec:
  hard: {pods: {{ index . 2 }}}
  scopeSelector:
    matchExpressions:
    - {scopeName: PriorityClass, operator: In, values: [{{ index . 3 }}]}
{{- end -}}

{{/* The image, and when it is pulled. */}}
{{- define "milligpu.image" -}}
{{- with .Values.image -}}
image: {{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
imagePullPolicy: {{ .pullPolicy }}
{{- end -}}
{{- end -}}

{{/* CPU and memory of a container. */}}
{{- define "milligpu.resources" -}}
requests: {{ include "milligpu.flow" .requests }}
limits: {{ include "milligpu.flow" .limits }}
{{- end -}}

{{/* How the API server asks the webhook: (root, failurePolicy). */}}
{{- define "milligpu.entry" -}}
{{- with (index . 0).Values.admission -}}
admissionReviewVersions: [v1]
sideEffects: None
failurePolicy: {{ index $ 1 }}
matchPolicy: Equivalent
reinvocationPolicy: IfNeeded
timeoutSeconds: 5
clientConfig:
  service: {namespace: milligpu, name: webhook, path: /mutate, port: 443}
namespaceSelector:
  matchExpressions:
  - {key: kubernetes.io/metadata.name, operator: NotIn, values: {{ include "milligpu.flow" (concat (list "kube-system" "kube-public" "kube-node-lease" "milligpu" "milligpu-node") .leftOut) }}}
  - {key: milligpu.io/admission, operator: {{ ternary "In" "NotIn" .optIn }}, values: [{{ ternary "enabled" "disabled" .optIn }}]}
{{- end -}}
{{- end -}}
