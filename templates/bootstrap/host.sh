main() {
  [ "$(id -u)" = 0 ] || { echo "gpuaas: paste this into a root shell of the host" >&2; exit 1; }

  lacking=
  [ -x /usr/bin/python3 ] || lacking="$lacking python3"
  [ -x /usr/sbin/sshd ] || lacking="$lacking openssh-server"
  [ -x /usr/bin/sudo ] || [ "$login" = root ] || lacking="$lacking sudo"
  if [ -n "$lacking" ]; then
    apt-get -q update
    DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $lacking
  fi

  # The control login. It has no password, and only this key opens it.
  id -u "$login" >/dev/null 2>&1 ||
    useradd --system --create-home --home-dir "/home/$login" --shell /bin/bash --password '*' "$login"
  home=$(getent passwd "$login" | cut -d: -f6)
  keys=$home/.ssh/authorized_keys
  install -d -m 0700 -o "$login" -g "$(id -gn "$login")" "$home/.ssh"
  [ -e "$keys" ] || install -m 0600 -o "$login" -g "$(id -gn "$login")" /dev/null "$keys"
  [ -z "$(tail -c 1 "$keys")" ] || echo >>"$keys"
  grep -qxF -e "$key" "$keys" || printf '%s\n' "$key" >>"$keys"

  # It becomes root without a password. A file that visudo refuses never lives.
  if [ "$login" != root ]; then
    sudoers=$(mktemp)
    printf '%s ALL=(ALL:ALL) NOPASSWD: ALL\n' "$login" >"$sudoers"
    visudo -cqf "$sudoers"
    cmp -s "$sudoers" /etc/sudoers.d/gpuaas ||
      install -m 0440 -o root -g root "$sudoers" /etc/sudoers.d/gpuaas
    rm -f "$sudoers"
    visudo -cq || { rm -f /etc/sudoers.d/gpuaas; echo "gpuaas: sudo refuses its files" >&2; exit 1; }
    runuser -u "$login" -- sudo -n true || { echo "gpuaas: sudo heeds no /etc/sudoers.d" >&2; exit 1; }
  fi

  ssh-keygen -A >/dev/null
  systemctl --quiet is-active ssh.socket || systemctl --quiet enable --now ssh.service

  public=/etc/ssh/ssh_host_ed25519_key.pub
  echo
  echo "host key    $(ssh-keygen -lf "$public")"
  echo "machine id  $(cat /etc/machine-id)"
  echo
  echo "On the control machine, with the address by which it reaches this host:"
  echo "  gpuaas node discover ADDRESS$user --host-key '$(cut -d ' ' -f 1,2 "$public")'"
}
main </dev/null
