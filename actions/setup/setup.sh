#!/usr/bin/env bash
# Finds or downloads the stackorder binary of one version and puts it on PATH.
#
# Reads VERSION, TOKEN and CHECKSUM, and of the runner RUNNER_OS, RUNNER_ARCH, RUNNER_TOOL_CACHE, RUNNER_TEMP,
# GITHUB_OUTPUT and GITHUB_PATH. Tool cache layout: <cache>/stackorder/<version>/<arch>/ beside <arch>.complete.
set -euo pipefail

releases=https://github.com/stackorder/stackorder/releases
latest_api=https://api.github.com/repos/stackorder/stackorder/releases/latest
# No redirect may lead to plain HTTP: archive and checksums come the same way.
curl_flags=(--proto '=https' -fsSL --retry 3)

fail() {
  printf '::error::%s\n' "$1"
  exit 1
}

case $CHECKSUM in
  true | false) ;;
  *) fail "setup: checksum must be true or false, not '$CHECKSUM'" ;;
esac

case $RUNNER_OS in
  Linux) os=linux ;;
  macOS) os=darwin ;;
  Windows) os=windows ;;
  *) fail "setup: no stackorder for the runner system '$RUNNER_OS'" ;;
esac
case $RUNNER_ARCH in
  X64) arch=amd64 cache_arch=x64 ;;
  ARM64) arch=arm64 cache_arch=arm64 ;;
  *) fail "setup: no stackorder for the runner architecture '$RUNNER_ARCH'" ;;
esac
binary=stackorder archive_kind=tar.gz
if [[ $os == windows ]]; then
  binary=stackorder.exe archive_kind=zip
fi

# The wrappers pass on a variable of the repository; one that nobody set is empty.
VERSION=${VERSION:-latest}
version=${VERSION#v}
if [[ $version == latest ]]; then
  # The token goes in through a file descriptor: an argument would show in the process list.
  authorization=''
  [[ -z $TOKEN ]] || authorization="header = \"authorization: Bearer $TOKEN\""
  answer=$(curl "${curl_flags[@]}" --config <(printf '%s\n' "$authorization") "$latest_api") ||
    fail "setup: cannot find the latest release at $latest_api"
  if [[ $answer =~ \"tag_name\":[[:space:]]*\"v([0-9][0-9A-Za-z.+-]*)\" ]]; then
    version=${BASH_REMATCH[1]}
  else
    fail "setup: the answer of $latest_api names no release"
  fi
fi
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+([.+-][0-9A-Za-z.+-]+)?$ ]] ||
  fail "setup: '$VERSION' is no version; write 1.2.3, v1.2.3 or latest"

directory=$RUNNER_TOOL_CACHE/stackorder/$version/$cache_arch

download() {
  local name="stackorder_${version}_${os}_${arch}.$archive_kind"
  local url="$releases/download/v$version/$name"
  local what="stackorder $version for $os/$arch from $url"
  local work
  work=$(mktemp -d "${RUNNER_TEMP:-/tmp}/stackorder-setup.XXXXXX")
  # shellcheck disable=SC2064 # the directory of now is the one to remove
  trap "rm -rf '$work'" EXIT

  curl "${curl_flags[@]}" -o "$work/$name" "$url" || fail "setup: cannot download $what"
  if [[ $CHECKSUM == true ]]; then
    local sums="stackorder_${version}_checksums.txt" expected actual
    curl "${curl_flags[@]}" -o "$work/$sums" "$releases/download/v$version/$sums" ||
      fail "setup: cannot download the checksums of $what"
    expected=$(awk -v name="$name" '$2 == name || $2 == "*" name { print $1 }' "$work/$sums")
    [[ -n $expected ]] || fail "setup: the checksum file has no line for $what"
    actual=$(if command -v sha256sum >/dev/null; then sha256sum "$work/$name"; else shasum -a 256 "$work/$name"; fi)
    [[ ${actual%% *} == "$expected" ]] ||
      fail "setup: checksum mismatch of $what: expected $expected, found ${actual%% *}"
  fi

  mkdir "$work/content"
  if [[ $archive_kind == zip ]]; then
    unzip -q "$work/$name" -d "$work/content" || fail "setup: cannot extract $what"
  else
    tar -xzf "$work/$name" -C "$work/content" || fail "setup: cannot extract $what"
  fi
  [[ -f $work/content/$binary ]] || fail "setup: no $binary inside $what"

  # The marker goes last: a job that dies half-way leaves nothing that looks complete.
  rm -rf "$directory" "$directory.complete"
  mkdir -p "$(dirname "$directory")"
  mv "$work/content" "$directory"
  chmod +x "$directory/$binary"
  : >"$directory.complete"
}

if [[ ! -f $directory.complete || ! -f $directory/$binary ]]; then
  download
fi

printf '%s\n' "$directory" >>"$GITHUB_PATH"
printf 'version=%s\npath=%s\n' "$version" "$directory" >>"$GITHUB_OUTPUT"
printf 'stackorder %s in %s\n' "$version" "$directory"
