// Starts Swagger UI. Where the server has API keys, it first asks for one: the page reads the document, and tries requests
// out, with the session that it gets for the key. The key itself is kept nowhere.
"use strict";

const UI = { "dueq-ui": "1" };

function session(method, body) {
  const headers = body ? { ...UI, "content-type": "application/json" } : UI;
  return fetch("../session", { method, headers, body: body && JSON.stringify(body) });
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

async function logIn() {
  const key = element("input", { type: "password", required: true, autocomplete: "off" });
  const refusal = element("p", { role: "alert" });
  const label = element("label", {}, "API key ", key);
  const form = element("form", { id: "log-in" }, label, element("button", {}, "Log in"), refusal);
  document.body.prepend(form);
  key.focus();
  await new Promise((done) => {
    form.onsubmit = async (event) => {
      event.preventDefault();
      const answer = await session("POST", { api_key: key.value });
      if (answer.ok) {
        done();
      } else {
        refusal.textContent = (await answer.json()).detail;
      }
    };
  });
  form.remove();
}

async function logOut() {
  await session("DELETE");
  location.reload();
}

window.onload = async () => {
  let answer = await session("GET");
  if (answer.status === 401) {
    await logIn();
    answer = await session("GET");
  }
  const { name } = await answer.json();
  if (name && name !== "anonymous") {
    const out = element("button", { onclick: logOut }, "Log out");
    document.body.prepend(element("div", { id: "logged-in" }, `Logged in as ${name} `, out));
  }
  window.ui = SwaggerUIBundle({
    url: "../openapi.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    displayOperationId: true,
    // By default the page would send this server's address to swagger.io.
    validatorUrl: "none",
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
    layout: "StandaloneLayout",
    requestInterceptor: (request) => Object.assign(request, { headers: { ...request.headers, ...UI } }),
  });
};
