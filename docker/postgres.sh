#!/bin/sh
# Makes the secrets of this composition at its first start, in a volume that only its services mount, then starts Postgres.
set -eu
cd /secrets
umask 027
make_secret() {
  [ -s "$1" ] && return
  head -c "$2" /dev/urandom | base64 | tr -d '\n' | tr '+/' '-_' > "$1.new"
  mv "$1.new" "$1"
}
make_secret postgres 24
make_secret fernet 32
make_secret jwt 48
make_secret admin 12
chgrp 0 /secrets postgres fernet jwt admin
chmod 0750 /secrets
# The one that the service `local` gets: where notebooks run there are no keys and no password of the database.
cp admin /login/admin
chgrp 0 /login /login/admin
chmod 0750 /login
chmod 0640 /login/admin
POSTGRES_PASSWORD=$(cat postgres)
export POSTGRES_PASSWORD
exec docker-entrypoint.sh postgres
