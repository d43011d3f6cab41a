/** Requests to the server that this page came from, with the key that the user typed in. */

const KEY = "trserve.apiKey";
const PATIENCE = 5000; // milliseconds for what a server knows without asking a model

/** The server refuses, can't be reached (status 0), or what it began to send has no end (status 200). */
export class ApiError extends Error {
  constructor(status, message, { code = null, param = null, retryAfter = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
    this.retryAfter = retryAfter;
  }

  /** What happened, in a few words. */
  get title() {
    switch (this.status) {
      case 0: return "The server does not answer";
      case 200: return "The answer broke off";
      case 400: return "The server refuses the request";
      case 401: return "An API key is needed";
      case 403: return "This key may not do that";
      case 429: return "Too many requests at the moment";
      case 503: return "No model is available";
      case 504: return "The request took too long";
      default: return "The server failed";
    }
  }
}

/** Kept for this tab only; where the browser keeps nothing, until the page is left. */
export const apiKey = {
  key: "",
  get() {
    try {
      return sessionStorage.getItem(KEY) ?? "";
    } catch {
      return this.key;
    }
  },
  set(key) {
    this.key = key;
    try {
      sessionStorage.setItem(KEY, key);
    } catch {} // storage is blocked
  },
};

export async function getJson(path) {
  const response = await request(path, { signal: AbortSignal.timeout(PATIENCE) });
  return answered(response.json());
}

export async function getText(path) {
  const response = await request(path, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  return answered(response.text());
}

/** The response, once its status is good. */
export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function request(path, options) {
  const key = apiKey.get();
  const headers = key && path.startsWith("v1/") ? { Authorization: `Bearer ${key}` } : {};
  const response = await answered(fetch(path, { ...options, headers: { ...options.headers, ...headers } }));
  if (!response.ok) throw await refusal(response);
  return response;
}

// What the server sends, or an ApiError where nothing comes (any more).
async function answered(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "Is it still running? The page tries again by itself.");
  }
}

async function refusal(response) {
  const retryAfter = Number(response.headers.get("retry-after")) || null;
  const text = await answered(response.text());
  try {
    return fromObject(response.status, JSON.parse(text).error, retryAfter);
  } catch {
    return new ApiError(response.status, `It answers ${response.status} ${response.statusText}.`, { retryAfter });
  }
}

/** OpenAI's error object, of a refusal or inside a stream. */
export function fromObject(status, { message, code, param }, retryAfter = null) {
  return new ApiError(status, message, { code, param, retryAfter });
}
