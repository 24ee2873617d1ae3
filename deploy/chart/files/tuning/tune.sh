#!/bin/sh
# Sets sysctls once, waits, and puts back what it found when it is told to end.
#
# tune.sh WANTED SYSCTLS FOUND: WANTED is a file of name=value lines, SYSCTLS is /proc/sys, FOUND a
# folder on the node's memory. There <name> holds the value that was found, <name>.ours what it
# became by us. Both outlive a killed pod, so that the next one still knows what to put back.
# What somebody else has changed meanwhile is theirs: it is told, and left as it is.
set -eu
wanted=$1 sysctls=$2 found=$3

path() { printf '%s/%s' "$sysctls" "$(printf %s "$1" | tr . /)"; }
# Several numbers of one sysctl are separated by tabs when they are read.
value() { tr '\t' ' ' <"$1"; }
tell() { printf 'lockstep-tuning: %s\n' "$*" >&2; }

# A half written note must never be taken for a value: written aside, then renamed.
note() {
  printf '%s\n' "$2" >"$found/.half"
  mv "$found/.half" "$found/$1"
}

forget() { rm -f "$found/$1.ours" "$found/$1"; }

put_back() {
  if [ ! -r "$(path "$1")" ]; then
    tell "$1 is gone"
    forget "$1"
    return 0
  fi
  now=$(value "$(path "$1")") before=$(cat "$found/$1")
  if [ "$now" = "$before" ]; then
    forget "$1"
  elif [ "$now" != "$(cat "$found/$1.ours")" ]; then
    tell "$1 is $now, set by another writer; left unchanged"
    forget "$1"
  elif printf '%s\n' "$before" >"$(path "$1")"; then
    tell "$1 is $before again"
    forget "$1"
  else
    tell "$1 cannot be put back to $before"
  fi
}

put_back_all() {
  for ours in "$found"/*.ours; do
    [ ! -e "$ours" ] || put_back "$(basename "$ours" .ours)"
  done
}

apply() {
  file=$(path "$1")
  if [ ! -w "$file" ]; then
    tell "$1 is no sysctl of this node that can be written"
    return 0
  fi
  before=$(value "$file")
  [ "$before" != "$2" ] || return 0
  note "$1" "$before"
  note "$1.ours" "$2"
  if printf '%s\n' "$2" >"$file"; then
    # The kernel may round it.
    note "$1.ours" "$(value "$file")"
    tell "$1 is $(value "$file"), was $before"
  else
    tell "$1 does not take $2"
    forget "$1"
  fi
}

mkdir -p "$found"
# $! is known as soon as what waits was started; a variable would be set a moment later. KILL, because
# what was started in this moment still has our own trap for TERM, and would forget it.
trap 'kill -KILL ${!:-} 2>/dev/null || :; put_back_all; exit 0' TERM INT
# Of a pod that was killed: everything begins with what the node had.
put_back_all
while IFS='=' read -r name want; do
  [ -z "$name" ] || apply "$name" "$want"
done <"$wanted"
tell ready
# In the background, because a shell hears signals only while it waits.
while :; do
  sleep 3600 &
  wait $!
done
