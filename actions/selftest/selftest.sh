#!/usr/bin/env bash
# The checks of `selftest.yml`: what Stackorder takes for granted about GitHub and AWS, seen by itself.
#
#   selftest.sh claims                in a probe: writes chosen claims of the job's token, and what AWS says to it
#   selftest.sh signals FILE          in a probe: notes which signals reach it, and when
#   selftest.sh app|refusals|dispatch|results|approvals|interrupt|required-check
#                                     in the checking job: each adds lines to the facts
#   selftest.sh report                the facts as a table
#
# Tokens and keys go into files and file descriptors, never into arguments or output.
set -uo pipefail

api_url=${GITHUB_API_URL:-https://api.github.com}
repository=${GITHUB_REPOSITORY:?}
work=${RUNNER_TEMP:?}/selftest
facts=$work/facts.tsv
mkdir -p "$work"
umask 077

# -- facts --------------------------------------------------------------------------------------------------------------

fact() { # ok | differs | not-run, name, what was seen
  local seen=${3//[$'\t\r\n']/ }
  printf '%s\t%s\t%s\n' "$2" "$1" "${seen:0:300}" >>"$facts"
  printf '%-8s %s: %s\n' "$1" "$2" "${seen:0:300}"
}

expect() { # name, what was seen, what it must be
  if [[ $2 == "$3" ]]; then fact ok "$1" "$2"; else fact differs "$1" "$2 (expected: $3)"; fi
}

expect_text() { # name, what was seen, an extended regular expression
  if [[ $2 =~ $3 ]]; then fact ok "$1" "$2"; else fact differs "$1" "$2 (expected: $3)"; fi
}

output() { printf '%s=%s\n' "$1" "$2" >>"${GITHUB_OUTPUT:-/dev/null}"; }
random() { od -An -N8 -tx1 /dev/urandom | tr -d ' \n'; }

# -- GitHub -------------------------------------------------------------------------------------------------------------

token=${GITHUB_TOKEN-}
status='' body=''

# `status` is the code of the answer, 000 without one; `body` is the answer.
api() { # method, path, JSON or nothing
  local send=()
  if [[ -n ${3-} ]]; then
    printf '%s' "$3" >"$work/request"
    send=(--data-binary "@$work/request")
  fi
  : >"$work/answer"
  status=$(curl --silent --max-time 30 --request "$1" --output "$work/answer" --write-out '%{http_code}' \
    --header 'accept: application/vnd.github+json' --header 'x-github-api-version: 2022-11-28' \
    --config <(printf 'header = "authorization: Bearer %s"\n' "$token") "${send[@]}" "$api_url/$2") || status=000
  body=$(<"$work/answer")
}

field() { jq -r "$1" <<<"$body" 2>/dev/null || true; }
message() { printf '%s %s' "$status" "$(field '.message // empty')"; }

dispatch() { # part, nonce; the number of the run in `run`
  api POST "repos/$repository/actions/workflows/selftest-run.yml/dispatches" \
    "$(jq -n --arg ref "$DEFAULT_BRANCH" --arg part "$1" --arg nonce "$2" \
      '{ref: $ref, return_run_details: true, inputs: {part: $part, nonce: $nonce}}')"
  run=$(field '.workflow_run_id // empty')
}

wait_for() { # run, seconds, states of which any ends the waiting; the one that came in `state`
  local until=$((SECONDS + $2)) states=$3
  state=''
  while ((SECONDS < until)); do
    api GET "repos/$repository/actions/runs/$1"
    state=$(field '.status // empty')
    [[ -z $state || " $states " != *" $state "* ]] || return 0
    sleep 5
  done
  return 1
}

jobs_of() { api GET "repos/$repository/actions/runs/$1/jobs?per_page=100"; }

artifact_of() { # run, name, folder
  api GET "repos/$repository/actions/runs/$1/artifacts?name=$2"
  local url
  url=$(field '.artifacts[0].archive_download_url // empty')
  [[ -n $url ]] || return 1
  # The answer leads to another host, which must not get the token: curl drops the header there.
  curl --silent --fail --location --max-time 60 --output "$work/archive.zip" \
    --config <(printf 'header = "authorization: Bearer %s"\n' "$token") "$url" &&
    unzip -q -o "$work/archive.zip" -d "$3"
}

open_pull() { # the number of the pull request in `pull`, its head in `head`
  api GET "repos/$repository/pulls?state=open&head=${repository%%/*}:selftest"
  pull=$(field '.[0].number // empty') head=$(field '.[0].head.sha // empty')
}

# -- probes -------------------------------------------------------------------------------------------------------------

id_token() { # audience, file
  curl --silent --fail --max-time 30 --config \
    <(printf 'header = "authorization: bearer %s"\n' "$ACTIONS_ID_TOKEN_REQUEST_TOKEN") \
    "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=$1" | jq -r .value >"$2"
}

payload_of() { # file with a token
  local part
  part=$(cut -d. -f2 <"$1" | tr '_-' '/+' | tr -d '\n')
  while ((${#part} % 4)); do part+='='; done
  base64 -d <<<"$part"
}

assume() { # role, file with a token; `assumed`, or the kind of the refusal
  local answer
  if answer=$(aws sts assume-role-with-web-identity --role-arn "$1" --role-session-name selftest --duration-seconds 900 \
    --web-identity-token "file://$2" --query AssumedRoleUser.Arn --output text 2>&1); then
    echo assumed
  else
    grep -oE '\((AccessDenied|[A-Za-z]+)\)' <<<"$answer" | head -n1 | tr -d '()'
  fi
}

claims() {
  local folder=$work/claims aws='{}' role
  mkdir -p "$folder"
  id_token https://selftest.example "$work/token" || { echo '::error::no OIDC token'; exit 1; }
  payload_of "$work/token" | jq '{iss, aud, sub, event_name, ref, ref_protected, sha, environment, environment_node_id,
    job_workflow_ref, workflow_ref, repository, repository_id, repository_owner_id, run_id, run_attempt, check_run_id,
    head_ref, base_ref, runner_environment, seconds_valid: (.exp - .iat), seconds_before: (.iat - .nbf)}
    | with_entries(select(.value != null))' >"$folder/claims.json"
  id_token sts.amazonaws.com "$work/token"
  for role in plan apply; do
    local arn=${PLAN_ROLE-}
    [[ $role == plan ]] || arn=${APPLY_ROLE-}
    [[ -n $arn ]] || continue
    aws=$(jq --arg role "$role" --arg answer "$(assume "$arn" "$work/token")" '.[$role] = $answer' <<<"$aws")
  done
  rm -f "$work/token"
  printf '%s\n' "$aws" >"$folder/aws.json"
  cat "$folder/claims.json" "$folder/aws.json"
}

signals() { # file
  local file=$1 name
  mkdir -p "$(dirname "$file")"
  printf 'START %s\n' "$(date +%s%3N)" >"$file"
  # shellcheck disable=SC2064 # name and file are those of now
  for name in INT TERM; do trap "printf '$name %s\n' \"\$(date +%s%3N)\" >>'$file'" "$name"; done
  # A shell looks at its traps between two commands only, or while it waits.
  while :; do
    sleep 1 &
    wait $!
  done
}

# -- the App ------------------------------------------------------------------------------------------------------------

base64url() { base64 -w0 | tr '+/' '-_' | tr -d '='; }

app_token() { # JSON of the claims; the signed token in `token`
  local head_and_claims
  head_and_claims=$(printf '{"alg":"RS256","typ":"JWT"}' | base64url).$(printf '%s' "$1" | base64url)
  token=$head_and_claims.$(printf '%s' "$head_and_claims" | openssl dgst -sha256 -sign "$work/app.pem" | base64url)
}

installation_token() { # JSON of what to narrow it to; the token in `token`
  local now
  now=$(date +%s)
  app_token "{\"iat\":$((now - 60)),\"exp\":$((now + 540)),\"iss\":\"$APP_ID\"}"
  api GET "repos/$repository/installation"
  api POST "app/installations/$(field '.id // 0')/access_tokens" "$1"
  token=$(field '.token // empty')
  [[ -z $token ]] || printf '::add-mask::%s\n' "$token"
}

has_app() { # names of the facts that need the App
  if [[ -n ${APP_ID-} && -n ${APP_KEY-} ]]; then
    printf '%s\n' "$APP_KEY" >"$work/app.pem"
    return 0
  fi
  local name
  for name in "$@"; do fact not-run "$name" 'variable SELFTEST_APP_ID or secret SELFTEST_APP_KEY is not set'; done
  return 1
}

app() {
  has_app app-expiry-refused app-expiry-600 app-issued-at-refused app-unknown-issuer app-token-form \
    app-not-accessible app-delivery-headers pull-payload-opened pull-payload-merged || return 0
  local now
  now=$(date +%s)
  app_token "{\"iat\":$((now - 60)),\"exp\":$((now + 1200)),\"iss\":\"$APP_ID\"}"
  api GET app
  expect_text app-expiry-refused "$(message)" "^401 'Expiration time' claim \('exp'\) is too far in the future"
  app_token "{\"iat\":$((now - 60)),\"exp\":$(($(date +%s) + 600)),\"iss\":\"$APP_ID\"}"
  api GET app
  # Which answer comes depends on two clocks; the server keeps to nine minutes.
  expect_text app-expiry-600 "$(message)" '^(200|401)'
  app_token "{\"iat\":\"yesterday\",\"exp\":$((now + 540)),\"iss\":\"$APP_ID\"}"
  api GET app
  expect_text app-issued-at-refused "$(message)" "^401 'Issued at' claim \('iat'\) must be an Integer"
  app_token "{\"iat\":$((now - 60)),\"exp\":$((now + 540)),\"iss\":\"999999999999\"}"
  api GET app
  expect_text app-unknown-issuer "$(message)" '^404 Integration not found'

  installation_token '{}'
  if [[ $token =~ ^ghs_[A-Za-z0-9._-]{36,}$ ]]; then
    fact ok app-token-form "ghs_ and ${#token} characters in all"
  else
    fact differs app-token-form "status $status, ${#token} characters, not of the form that is redacted"
  fi
  installation_token '{"permissions": {"metadata": "read"}}'
  api POST "repos/$repository/check-runs" "{\"name\": \"selftest/never\", \"head_sha\": \"$GITHUB_SHA\"}"
  expect app-not-accessible "$(message)" '403 Resource not accessible by integration'
  deliveries
}

deliveries() {
  local now id action of_app
  now=$(date +%s)
  app_token "{\"iat\":$((now - 60)),\"exp\":$((now + 540)),\"iss\":\"$APP_ID\"}"
  for action in opened closed; do
    local name=pull-payload-opened
    [[ $action == opened ]] || name=pull-payload-merged
    api GET 'app/hook/deliveries?per_page=100'
    id=$(jq -r --arg action "$action" \
      '[.[] | select(.event == "pull_request" and .action == $action)][0].id // empty' <<<"$body")
    if [[ -z $id ]]; then
      fact not-run "$name" "no delivery pull_request.$action among the last 100"
      [[ $action == closed ]] || fact not-run app-delivery-headers 'no delivery to look at'
      continue
    fi
    api GET "app/hook/deliveries/$id"
    if [[ $action == opened ]]; then
      of_app=$(field '.request.headers | with_entries(.key |= ascii_downcase)
        | "\(."x-github-hook-installation-target-type") \(."x-github-hook-installation-target-id")"')
      expect app-delivery-headers "$of_app" "integration $APP_ID"
      expect_text "$name" "$(field '.request.payload.pull_request
        | "mergeable \(.mergeable), state \(.mergeable_state)"')" '^mergeable null, state (null|unknown)$'
    else
      expect_text "$name" "$(field '.request.payload.pull_request | "merged \(.merged)"')" '^merged true$'
    fi
  done
}

# -- refusals -----------------------------------------------------------------------------------------------------------

refusals() {
  local workflows=repos/$repository/actions/workflows
  dispatched() { # workflow, JSON
    api POST "$workflows/$1/dispatches" "$2"
    message
  }
  local good
  good=$(jq -n --arg ref "$DEFAULT_BRANCH" '{ref: $ref, inputs: {part: "none", nonce: "x"}}')
  expect dispatch-no-ref "$(dispatched selftest-run.yml "$(jq '.ref = "no-such-branch"' <<<"$good")")" \
    '422 No ref found for: no-such-branch'
  expect dispatch-no-trigger "$(dispatched selftest-pull.yml "$(jq 'del(.inputs)' <<<"$good")")" \
    "422 Workflow does not have 'workflow_dispatch' trigger"
  expect dispatch-missing-input "$(dispatched selftest-run.yml "$(jq 'del(.inputs.part)' <<<"$good")")" \
    "422 Required input 'part' not provided"
  expect dispatch-unexpected-input "$(dispatched selftest-run.yml "$(jq '.inputs.odd = "1"' <<<"$good")")" \
    '422 Unexpected inputs provided: ["odd"]'
  expect_text dispatch-unknown-workflow "$(dispatched no-such-file.yml "$good")" '^404'
  api PUT "$workflows/selftest-run.yml/disable"
  expect_text dispatch-disabled-workflow "$(dispatched selftest-run.yml "$good")" '^(403|422)'
  api PUT "$workflows/selftest-run.yml/enable"
  [[ $status == 204 ]] || fact differs workflow-enabled-again "$(message)"

  # This job asked for no `deployments: write`.
  api POST "repos/$repository/deployments" "$(jq -n --arg ref "$DEFAULT_BRANCH" '{ref: $ref}')"
  expect job-token-not-accessible "$(message)" '403 Resource not accessible by integration'

  open_pull
  if [[ -z $pull ]]; then
    fact not-run comment-too-long 'no open pull request from the branch selftest'
  else
    api POST "repos/$repository/issues/$pull/comments" \
      "$(head -c 65537 /dev/zero | tr '\0' a | jq -Rs '{body: .}')"
    local told
    told=$(field '[.message, (.errors[]? | .message? // .)] | map(tostring) | join(" ")')
    expect_text comment-too-long "$status $told" '^422 .*body is too long \(maximum is 65536 characters\)'
  fi
}

# -- a dispatch, and what its job and that of a pull request were ------------------------------------------------------

probe_dispatch() {
  local nonce
  nonce=$(random)
  dispatch apply "$nonce"
  expect_text dispatch-returns-run "$status ${run:+with a run id}" '^200 with a run id$'
  [[ -n $run ]] || return 0
  output apply-run "$run"
  printf '%s\n' "$run" >"$work/apply-run"
  api GET "repos/$repository/actions/runs/$run"
  expect run-title "$(field '.display_title' | sed "s/$nonce/NONCE/")" 'stackorder apply NONCE wave 0'
  wait_for "$run" 600 completed || true
  jobs_of "$run"
  expect job-name "$(field '[.jobs[] | select(.conclusion != "skipped") | .name] | join(", ")')" \
    'run / apply wave 0 live/net:prod'

  open_pull
  [[ -n $pull ]] || return 0
  api GET "repos/$repository/actions/workflows/selftest-pull.yml/runs?head_sha=$head&event=pull_request&status=completed"
  local plan_run
  plan_run=$(field '.workflow_runs[0].id // empty')
  output plan-run "$plan_run"
  printf '%s\n' "$pull" >"$work/pull"
}

results() { # folder with the artifacts that another action fetched
  local part file seen shape="repo:${repository%%/*}(@[0-9]+)?/${repository##*/}(@[0-9]+)?"
  for part in plan apply; do
    file=$1/$part/claims.json
    if [[ ! -s $file ]]; then
      fact not-run "claims-$part" "no artifact of a $part job"
      fact not-run "artifact-across-runs-$part" "no artifact of a $part job"
      continue
    fi
    fact ok "artifact-across-runs-$part" "$(jq length "$file") claims"
    seen=$(jq -r '"\(.event_name) \(.ref) environment \(.environment // "none")"' "$file")
    if [[ $part == plan ]]; then
      expect "claims-plan" "$seen" "pull_request refs/pull/$(<"$work/pull")/merge environment none"
      expect_text claims-plan-subject "$(jq -r .sub "$file")" "^$shape:pull_request$"
    else
      expect "claims-apply" "$seen" "workflow_dispatch refs/heads/$DEFAULT_BRANCH environment selftest-open"
      expect_text claims-apply-subject "$(jq -r .sub "$file")" "^$shape:environment:selftest-open$"
      expect claims-apply-run "$(jq -r '"\(.run_id) attempt \(.run_attempt)"' "$file")" "$(<"$work/apply-run") attempt 1"
      expect claims-environment-node-id "$(jq -r '.environment_node_id | type' "$file")" string
    fi
    expect_text "claims-$part-workflow" "$(jq -r '"\(.job_workflow_ref) called by \(.workflow_ref)"' "$file")" \
      "selftest-job.yml@.* called by .*/selftest-(pull|run).yml@"
    expect "claims-$part-audience" "$(jq -r .aud "$file")" https://selftest.example
    expect "claims-$part-ref-protected" "$(jq -r '.ref_protected | type' "$file")" string
    expect "claims-$part-ids-are-texts" "$(jq -r '[.repository_id, .repository_owner_id, .run_id, .run_attempt,
      .check_run_id] | map(type) | unique | join(" ")' "$file")" string
    expect_text "claims-$part-times" "$(jq -r '"valid \(.seconds_valid) s, from \(.seconds_before) s before"' "$file")" \
      '^valid [0-9]+ s, from [0-9]+ s before$'
    aws_results "$part" "$1/$part/aws.json"
  done
}

aws_results() { # part, file
  local other=apply
  [[ $1 == plan ]] || other=plan
  if [[ $(jq length "$2" 2>/dev/null) != 2 ]]; then
    fact not-run "aws-$1-job" 'variables SELFTEST_PLAN_ROLE and SELFTEST_APPLY_ROLE are not both set'
    return
  fi
  expect "aws-$1-job" "$(jq -r --arg own "$1" --arg other "$other" \
    '"own role \(.[$own]), role of the other \(.[$other])"' "$2")" 'own role assumed, role of the other AccessDenied'
}

# -- approvals ----------------------------------------------------------------------------------------------------------

approvals() {
  dispatch gated "$(random)"
  if [[ -z $run ]] || ! wait_for "$run" 300 'waiting completed'; then
    fact not-run approvals-per-run "$(message)"
    return
  fi
  if [[ $state == completed ]]; then
    fact not-run approvals-per-run 'the environment selftest-gated has no reviewers, or they are not to be had here'
    return
  fi
  sleep 10
  api GET "repos/$repository/actions/runs/$run/pending_deployments"
  expect approvals-asked "$(field 'length') for two jobs" '1 for two jobs'
  printf '::notice title=approve now::%s/%s/actions/runs/%s waits for your approval\n' \
    "$GITHUB_SERVER_URL" "$repository" "$run"
  if ! wait_for "$run" 1200 completed; then
    fact not-run approvals-per-run 'nobody approved within twenty minutes'
    api POST "repos/$repository/actions/runs/$run/cancel"
    return
  fi
  api GET "repos/$repository/actions/runs/$run/approvals"
  local given
  given=$(field 'length')
  jobs_of "$run"
  expect approvals-per-run "$given approval, $(field '[.jobs[] | select(.conclusion == "success")] | length') jobs ran" \
    '1 approval, 2 jobs ran'
}

# -- interrupt ----------------------------------------------------------------------------------------------------------

interrupt() {
  dispatch interrupt "$(random)"
  local until=$((SECONDS + 300)) how file started=0
  while [[ -n $run ]] && ((SECONDS < until)); do
    jobs_of "$run"
    started=$(field '[.jobs[]? | .steps[]? | select(.name == "Wait for a signal" and .status == "in_progress")] | length')
    [[ $started != 2 ]] || break
    sleep 5
  done
  if [[ $started != 2 ]]; then
    fact not-run interrupt-exec "the two jobs were not seen running"
    return
  fi
  sleep 10
  api POST "repos/$repository/actions/runs/$run/cancel"
  expect cancel-accepted "$status" 202
  wait_for "$run" 420 completed || true
  for how in exec child; do
    file=$work/signals-$how
    if ! artifact_of "$run" "signals-$how" "$file"; then
      fact not-run "interrupt-$how" 'no artifact'
      continue
    fi
    if ! grep -q START "$file"/*.txt; then
      fact not-run "interrupt-$how" 'the probe noted nothing, not even its start'
      continue
    fi
    local seen
    seen=$(awk '$1 == "INT" && !first { first = $2; print "INT" }
      $1 == "TERM" { printf "TERM"; if (first) printf " after %.1f s", ($2 - first) / 1000; print "" }' "$file"/*.txt)
    if [[ $how == exec ]]; then
      expect_text interrupt-exec "${seen:-no signal}" '^INT'
    else
      expect interrupt-child "${seen:-no signal}" 'no signal'
    fi
  done
}

# -- a required check by its source --------------------------------------------------------------------------------------

required_check() {
  has_app required-check-other-source required-check-app || return 0
  open_pull
  if [[ -z $pull ]]; then
    fact not-run required-check-app 'no open pull request from the branch selftest'
    return
  fi
  local of_job=$token post
  post=$(jq -n --arg head "$head" '{name: "selftest/required", head_sha: $head, status: "completed", conclusion: "success"}')
  merge_state() { # the first state that is not unknown
    local try
    for ((try = 0; try < 12; try++)); do
      api GET "repos/$repository/pulls/$pull"
      [[ $(field '.mergeable_state') == unknown ]] || break
      sleep 5
    done
    field '.mergeable_state'
  }
  api POST "repos/$repository/check-runs" "$post"
  [[ $status == 201 ]] || fact differs required-check-posted-by-job "$(message)"
  sleep 10
  expect required-check-other-source "$(merge_state)" blocked
  installation_token '{"permissions": {"checks": "write"}}'
  api POST "repos/$repository/check-runs" "$post"
  [[ $status == 201 ]] || fact differs required-check-posted-by-app "$(message)"
  token=$of_job
  sleep 10
  expect_text required-check-app "$(merge_state)" '^(clean|unstable|has_hooks)$'
}

# -- report -------------------------------------------------------------------------------------------------------------

report() {
  local name result seen differing=0
  touch "$facts"
  api GET "repos/$repository"
  {
    printf '### Live check\n\n'
    printf -- '- date: %s\n- host: %s\n- repository: %s\n- runner: %s %s\n\n' "$(date -u +%Y-%m-%d)" \
      "${GITHUB_SERVER_URL#https://}" "$(field '.visibility // "unknown"')" "${ImageOS-unknown}" "${ImageVersion-}"
    printf '| Fact | Result | Seen |\n| --- | --- | --- |\n'
    while IFS=$'\t' read -r name result seen; do
      seen=${seen//"$repository"/OWNER/REPOSITORY}
      seen=$(sed -E -e "s#repo:${repository%%/*}(@?)#repo:OWNER\1#; s#/${repository##*/}(@?)([0-9]*)#/REPOSITORY\1\2#" \
        -e 's/[0-9]{12}/ACCOUNT/g; s/[|]/\\|/g' <<<"$seen")
      printf '| %s | %s | %s |\n' "$name" "$result" "$seen"
    done <"$facts"
    printf '\n%d as expected, %d different, %d not run\n' "$(grep -c $'\tok\t' "$facts")" \
      "$(grep -c $'\tdiffers\t' "$facts")" "$(grep -c $'\tnot-run\t' "$facts")"
  } >"$work/report.md"
  cat "$work/report.md"
  [[ -z ${GITHUB_STEP_SUMMARY-} ]] || cat "$work/report.md" >>"$GITHUB_STEP_SUMMARY"
  differing=$(grep -c $'\tdiffers\t' "$facts")
  ((differing == 0))
}

case ${1-} in
  claims) claims ;;
  signals) signals "${2:?a file}" ;;
  app) app ;;
  refusals) refusals ;;
  dispatch) probe_dispatch ;;
  results) results "${2:?a folder}" ;;
  approvals) approvals ;;
  interrupt) interrupt ;;
  required-check) required_check ;;
  report) report ;;
  *)
    echo "selftest.sh: unknown part '${1-}'" >&2
    exit 1
    ;;
esac
