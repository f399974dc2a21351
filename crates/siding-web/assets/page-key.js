// The page key, with which this browser types as a person. The response to a sign-in link contains
// it once. localStorage keeps it from pages at other ports of the host, which receive the cookie.

const STORAGE_NAME = "siding-page-key";

/** Returns the page key, or null without one. */
export function readPageKey() {
  try {
    return localStorage.getItem(STORAGE_NAME);
  } catch {
    // The browser does not let pages store anything.
    return null;
  }
}

/** Stores a page key; null removes the stored one. */
export function storePageKey(key) {
  try {
    if (key) localStorage.setItem(STORAGE_NAME, key); else localStorage.removeItem(STORAGE_NAME);
  } catch {
    // Without storage, the keys of this browser are an agent's.
  }
}

/** Returns the headers of a request that types as a person if this browser has a page key. */
export function keyHeaders() {
  const key = readPageKey();
  return key ? { "siding-page-key": key } : {};
}

const signedIn = document.querySelector("[data-signed-in]");
if (signedIn) {
  // A key of an earlier server at this port is not valid any more.
  storePageKey(signedIn.dataset.pageKey ?? null);
  location.replace(signedIn.href);
}
