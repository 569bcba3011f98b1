// An authorization server of npm, as a real one: clients, codes with PKCE, resource indicators, refresh tokens that
// rotate, introspection and revocation.
//
//   authorization_server.mjs REDIRECT_URI
//
// It prints {"issuer": ...} when it listens, and a line {"grant": TYPE} for each token that it gave. POST /test/end
// ends all access tokens before their time.
import http from 'node:http';
import Provider from 'oidc-provider';

// Standard output is ours; what the library has to say goes to the log.
console.info = console.error;
console.warn = console.error;

const [redirect] = process.argv.slice(2);
const kept = new Map();

class Kept {
  constructor(model) {
    this.model = model;
  }
  key(id) {
    return `${this.model}:${id}`;
  }
  async upsert(id, payload) {
    kept.set(this.key(id), payload);
  }
  async find(id) {
    return kept.get(this.key(id));
  }
  async findByUid(uid) {
    return [...kept.values()].find((payload) => payload.uid === uid);
  }
  async findByUserCode() {
    return undefined;
  }
  async consume(id) {
    const payload = kept.get(this.key(id));
    if (payload) payload.consumed = Math.floor(Date.now() / 1000);
  }
  async destroy(id) {
    kept.delete(this.key(id));
  }
  async revokeByGrantId(grantId) {
    for (const [key, payload] of kept) if (payload.grantId === grantId) kept.delete(key);
  }
}

const server = http.createServer();
await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  adapter: Kept,
  clients: [
    {
      client_id: 'pintle',
      client_secret: 'c1ient-s3cret',
      grant_types: ['client_credentials', 'authorization_code', 'refresh_token'],
      response_types: ['code'],
      redirect_uris: [redirect],
    },
  ],
  scopes: ['mcp', 'offline_access'],
  issueRefreshToken: async () => true,
  rotateRefreshToken: true,
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: async () => true,
      getResourceServerInfo: async (_ctx, resource) => ({
        scope: 'mcp',
        audience: resource,
        accessTokenFormat: 'opaque',
      }),
    },
  },
});
provider.on('grant.success', (ctx) => {
  console.log(JSON.stringify({ grant: ctx.oidc.params.grant_type }));
});
const answer = provider.callback();
server.on('request', (request, response) => {
  if (request.url === '/test/end') {
    for (const key of kept.keys()) if (/^(AccessToken|ClientCredentials):/.test(key)) kept.delete(key);
    response.end();
    return;
  }
  answer(request, response);
});
console.log(JSON.stringify({ issuer }));
